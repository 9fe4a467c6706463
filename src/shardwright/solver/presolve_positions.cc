// Only a position where memory rises can be the highest of its neighbourhood,
// and of a run of rises without a fall only the last counts: at it, everything
// alive at the earlier ones still is. A position whose largest possible sum
// keeps the limit is never in the way. Forgetting both kinds often leaves a
// fraction of the axis, and choices become equal or dominated that were not.
#include <algorithm>

#include "shardwright/solver/presolve_work.h"

namespace shardwright::solver::internal {

List positions_that_matter(Work* work, std::int32_t num_positions,
                           std::optional<std::int64_t> limit) {
  const auto size = static_cast<std::size_t>(num_positions) + 1;
  std::vector<bool> rises(size, false);
  std::vector<bool> falls(size, false);
  std::vector<std::int64_t> most(size, 0);  // changes, then sums
  for (const WorkNode& node : work->nodes) {
    if (!node.alive) continue;
    const Outline& outline = work->catalogue.outline(node.shape);
    for (std::size_t e = 0; e < node.positions.size(); ++e) {
      const std::int32_t p = node.positions[e];
      if (outline.rises[e]) rises[p] = true;
      if (outline.falls[e]) falls[p] = true;
      if (e > 0) most[p] -= outline.most[e - 1];
      if (e < outline.most.size()) most[p] += outline.most[e];
    }
  }
  List out;
  std::int64_t sum = 0;
  std::int32_t last_rise = -1;
  for (std::int32_t p = 0; p <= num_positions; ++p) {
    if (falls[p] && last_rise >= 0) {
      out.push_back(last_rise);
      last_rise = -1;
    }
    if (p == num_positions) break;
    sum += most[p];
    most[p] = sum;
    if (rises[p]) last_rise = p;
  }
  if (limit) {
    std::erase_if(out, [&](std::int32_t p) { return most[p] <= *limit; });
  }
  return out;
}

void keep_positions(Work* work, const List& kept) {
  for (std::size_t i = 0; i < work->nodes.size(); ++i) {
    WorkNode& node = work->nodes[i];
    if (!node.alive || node.positions.empty()) continue;
    for (std::int32_t& p : node.positions) {
      p = static_cast<std::int32_t>(
          std::lower_bound(kept.begin(), kept.end(), p) - kept.begin());
    }
    // Segments that cover no kept position go.
    List segments;
    List positions;
    for (std::size_t s = 0; s + 1 < node.positions.size(); ++s) {
      if (node.positions[s] == node.positions[s + 1]) continue;
      segments.push_back(static_cast<std::int32_t>(s));
      positions.push_back(node.positions[s]);
    }
    if (segments.size() + 1 == node.positions.size()) continue;
    if (!segments.empty()) positions.push_back(node.positions.back());
    node.positions = std::move(positions);
    const auto id = static_cast<std::int32_t>(i);
    work->set_shape(
        id, work->catalogue.keep_segments(
                node.shape, work->catalogue.indices(std::move(segments))));
    work->touch(id);
  }
}

}  // namespace shardwright::solver::internal
