// Answers of the solver as JSON, with what explains them:
//
//   {"status": "optimal", "techniques": [...], "ticks": 120,
//    "cost": 11, "bound": 11, "gap": 0.0, "peak": 12, "choice": [1, 0],
//    "prices": [{"position": 3, "price": 0.5}],
//    "profile": {"peak": 12, "within": 0.001, "ranges": [[3, 4]]}}
//
// Ranges are half open. A bound that is not known is null. An infeasible
// problem has, instead of the keys from "cost" on,
//
//   {"smallest_limit": 12, "smallest_limit_bound": 12, "binding_position": 3,
//    "alive": {"num_nodes": 1, "least_bytes": 12,
//              "nodes": [{"node": 1, "name": "big", "least_bytes": 12}]}}
//
// with both limits null when infinite edges leave no choice at all.
#pragma once

#include "shardwright/base/json.h"
#include "shardwright/solver/solve.h"

namespace shardwright::solver {

// Nodes listed of those alive at the binding position.
inline constexpr std::size_t kMostAliveNodes = 20;

// `answer` must be one to `problem`. O(nodes + intervals + positions).
Json answer_to_json(const ChoiceProblem& problem, const Answer& answer);

}  // namespace shardwright::solver
