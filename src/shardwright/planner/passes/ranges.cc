#include "shardwright/planner/passes/ranges.h"

#include <algorithm>

namespace shardwright::planner {

void Ranges::add(std::int32_t first, std::int32_t last) {
  if (last < first) return;
  items_.emplace_back(first, last + 1);
  std::sort(items_.begin(), items_.end());
  std::vector<std::pair<std::int32_t, std::int32_t>> merged;
  for (const auto& [lo, hi] : items_) {
    if (!merged.empty() && lo <= merged.back().second) {
      merged.back().second = std::max(merged.back().second, hi);
    } else {
      merged.emplace_back(lo, hi);
    }
  }
  items_ = std::move(merged);
}

Ranges Ranges::minus(const Ranges& other) const {
  Ranges out;
  for (auto [lo, hi] : items_) {
    for (const auto& [from, to] : other.items_) {
      if (to <= lo || from >= hi) continue;
      if (from > lo) out.items_.emplace_back(lo, from);
      lo = std::max(lo, to);
      if (lo >= hi) break;
    }
    if (lo < hi) out.items_.emplace_back(lo, hi);
  }
  return out;
}

void add_bytes(std::vector<solver::MemoryInterval>& out, const Ranges& ranges,
               std::int64_t bytes) {
  if (bytes <= 0) return;
  for (const auto& [lo, hi] : ranges.items()) {
    out.push_back(solver::MemoryInterval{lo, hi, bytes});
  }
}

}  // namespace shardwright::planner
