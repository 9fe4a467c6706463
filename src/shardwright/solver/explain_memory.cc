#include "shardwright/solver/explain_memory.h"

#include <algorithm>

namespace shardwright::solver {
namespace {

// 0 when no choice is allowed.
std::int64_t least_bytes_at(const Node& node, std::int32_t position) {
  std::int64_t least = kInfinite;
  for (const Choice& choice : node.choices) {
    if (choice.cost >= kInfinite) continue;
    least = std::min(least, bytes_at(choice, position));
  }
  return least >= kInfinite ? 0 : least;
}

}  // namespace

std::vector<PositionRange> ranges_near_peak(
    const std::vector<std::int64_t>& profile, std::int64_t one_in) {
  std::vector<PositionRange> out;
  if (profile.empty()) return out;
  const std::int64_t peak = *std::max_element(profile.begin(), profile.end());
  if (peak <= 0) return out;
  const std::int64_t least = peak - peak / one_in;
  for (std::size_t p = 0; p < profile.size(); ++p) {
    if (profile[p] < least) continue;
    const auto position = static_cast<std::int32_t>(p);
    if (out.empty() || out.back().hi != position) {
      out.push_back({position, position});
    }
    out.back().hi = position + 1;
  }
  return out;
}

std::vector<AliveNode> alive_at(const ChoiceProblem& problem,
                                std::int32_t position) {
  std::vector<AliveNode> out;
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    const std::int64_t bytes = least_bytes_at(problem.nodes[i], position);
    if (bytes > 0) out.push_back({static_cast<std::int32_t>(i), bytes});
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const AliveNode& left, const AliveNode& right) {
                     return left.least_bytes > right.least_bytes;
                   });
  return out;
}

}  // namespace shardwright::solver
