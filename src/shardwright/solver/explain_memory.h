// Where memory is short: what a choice needs near its peak, and what no choice
// can avoid at a position.
#pragma once

#include <cstdint>
#include <vector>

#include "shardwright/solver/choice_problem.h"

namespace shardwright::solver {

// Positions p with lo <= p < hi.
struct PositionRange {
  std::int32_t lo = 0;
  std::int32_t hi = 0;
  bool operator==(const PositionRange&) const = default;
};

// The positions whose bytes are at least the peak less one in `one_in` of it,
// joined to ranges, ascending. None when the peak is 0. O(positions).
std::vector<PositionRange> ranges_near_peak(
    const std::vector<std::int64_t>& profile, std::int64_t one_in = 1000);

// A node and the least bytes that any of its allowed choices has alive at some
// position.
struct AliveNode {
  std::int32_t node = 0;
  std::int64_t least_bytes = 0;
  bool operator==(const AliveNode&) const = default;
};

// The nodes that cannot avoid memory at `position`, largest first (ties: the
// lower number). O(intervals + nodes log nodes).
std::vector<AliveNode> alive_at(const ChoiceProblem& problem,
                                std::int32_t position);

}  // namespace shardwright::solver
