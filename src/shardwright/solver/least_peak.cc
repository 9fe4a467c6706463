#include "shardwright/solver/least_peak.h"

#include <algorithm>
#include <vector>

namespace shardwright::solver::internal {
namespace {

// The bytes that every choice of the node has, as intervals.
std::vector<MemoryInterval> least_of(const Node& node) {
  std::vector<std::int32_t> ends;
  for (const Choice& choice : node.choices) {
    for (const MemoryInterval& item : choice.intervals) {
      ends.push_back(item.lo);
      ends.push_back(item.hi);
    }
  }
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  std::vector<MemoryInterval> out;
  for (std::size_t n = 0; n + 1 < ends.size(); ++n) {
    out.push_back({ends[n], ends[n + 1], kInfinite});
  }
  std::vector<std::int64_t> bytes;
  for (const Choice& choice : node.choices) {
    bytes.assign(out.size(), 0);
    for (const MemoryInterval& item : choice.intervals) {
      const auto first = std::lower_bound(ends.begin(), ends.end(), item.lo);
      for (auto at = static_cast<std::size_t>(first - ends.begin());
           at < out.size() && out[at].lo < item.hi; ++at) {
        bytes[at] += item.bytes;
      }
    }
    for (std::size_t at = 0; at < out.size(); ++at) {
      out[at].bytes = std::min(out[at].bytes, bytes[at]);
    }
  }
  return out;
}

}  // namespace

std::int64_t least_peak(const ChoiceProblem& problem) {
  std::vector<std::int64_t> change(problem.num_positions + 1, 0);
  for (const Node& node : problem.nodes) {
    for (const MemoryInterval& item : least_of(node)) {
      change[item.lo] += item.bytes;
      change[item.hi] -= item.bytes;
    }
  }
  std::int64_t peak = 0;
  std::int64_t level = 0;
  for (const std::int64_t step : change) {
    level += step;
    peak = std::max(peak, level);
  }
  return peak;
}

}  // namespace shardwright::solver::internal
