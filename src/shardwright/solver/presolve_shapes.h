// Functions of shapes. Where ends drop out (no choice's memory changes there
// any more), `ends` lists those that stay, by their old place.
#pragma once

#include "shardwright/solver/presolve_data.h"

namespace shardwright::solver::internal {

struct ResizedShape {
  Shape shape;
  List ends;
};

// Lines and segments in any form; the bytes are lines x segments.
ResizedShape canonical_shape(Shape&& raw);

// New choice n is old choice chosen[n].
ResizedShape gather_choices(const Shape& shape, const List& chosen);

// Costs and bytes of two shapes with equally many choices, added choice by
// choice. `owners`: for each end of the two together, 1 for one of `left`, 2
// for one of `right`, 3 for both.
ResizedShape sum_of_shapes(const Shape& left, const Shape& right,
                           const List& owners);

// Only these segments; they move together.
ResizedShape keep_segments(const Shape& shape, const List& kept);

// Adds costs[k] to choice k where it is below kInfinite.
Shape add_costs(const Shape& shape, const std::vector<std::int64_t>& costs);

// Per segment the most bytes of any choice; per end whether any choice's bytes
// rise or fall there.
struct Outline {
  std::vector<std::int64_t> most;
  std::vector<bool> rises;
  std::vector<bool> falls;
};
Outline outline_of(const Shape& shape);

// Sorted, disjoint, merged form of a list of intervals.
std::vector<MemoryInterval> normal_intervals(
    const std::vector<MemoryInterval>& intervals);

}  // namespace shardwright::solver::internal
