// Alternatives: the best plan for each strategy of one op, all else free.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "shardwright/base/result.h"
#include "shardwright/planner/model.h"
#include "shardwright/planner/problem.h"
#include "shardwright/solver/solve.h"

namespace shardwright::planner {

struct Alternative {
  const PricedStrategy* priced = nullptr;
  const strategy::Strategy* strategy = nullptr;
  solver::Status status = solver::Status::kUnknown;
  std::int64_t cost = 0;                // of the best plan that was found
  std::int64_t smallest_limit = 0;      // when infeasible
  std::vector<std::string> strategies;  // of all ops, in graph order
};

// One per strategy of the op that can be priced, in their order. Complexity:
// one solve each.
std::vector<Alternative> alternatives_of(const Model& model,
                                         const PlanningProblem& problem,
                                         OpId op,
                                         const solver::SolveOptions& options);

}  // namespace shardwright::planner
