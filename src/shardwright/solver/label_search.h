// Closes the gap that prices leave: the cheapest plan under a few memory rows,
// found exactly among the plans whose bound is below the best cost known.
//
// Elimination once more, but a cell keeps not the one least value but a list of
// labels (cost, bytes in every row), none of which another one of the cell
// beats in all of them; the shortest path problem with resources is solved so
// (Desrochers and Soumis 1988). A label goes as soon as its value at the prices
// plus the least value of everything outside reaches the best cost known. With
// good prices that gap is small, and so are the lists, however many plans there
// are. Repeated layers make labels equal, not many.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shardwright/solver/budget.h"
#include "shardwright/solver/elimination.h"

namespace shardwright::solver::internal {

struct LabelTask {
  // Per flat choice. All costs are in the elimination's scaled units.
  std::span<const std::int64_t> cost;
  std::span<const std::int64_t> priced_cost;     // >= kForbidden: not allowed
  std::vector<std::vector<std::int64_t>> bytes;  // [row][flat choice]
  std::int64_t limit = 0;                        // of each row
  std::int64_t most_value = 0;  // plans whose priced costs exceed it go
  std::int64_t most_labels = 0;
};

struct LabelResult {
  bool finished = false;  // false: too many labels, or the budget was spent
  std::int64_t cost = kInfinite;  // scaled; kInfinite: there is no such plan
  std::vector<std::int32_t> choice;
};

// `elimination` must fit and have minimised the priced costs last.
LabelResult search_labels(Elimination* elimination, const LabelTask& task,
                          Budget* budget);

}  // namespace shardwright::solver::internal
