// ChoiceProblem as JSON: for test cases, bug reports and second opinions.
//
//   {"positions": 8, "limit": 15,
//    "nodes": [{"name": "A", "choices": [
//        {"name": "keep", "cost": 8, "intervals": [[0, 7, 4]]}, ...]}, ...],
//    "edges": [{"nodes": [0, 1], "table": [[0, null], [5, 0]]},
//              {"nodes": [1, 2], "allowed": ["101", "010"]},
//              {"nodes": [2, 3], "row_class": [0, 0, 1], "col_class": [0, 1],
//               "costs": [[0, null], [null, 0]]}]}
//
// null is infinite. "table" and "allowed" have one line per choice of the
// first node; "costs" one line per row class. "limit" may be missing or null.
// Names of choices are read over. Written files use classes.
#pragma once

#include <string>

#include "shardwright/base/json.h"
#include "shardwright/solver/choice_problem.h"

namespace shardwright::solver {

// The number, or null for what is infinite or not known (either sign).
Json finite_or_null(std::int64_t number);

Json problem_to_json(const ChoiceProblem& problem);

// Errors: kParseError naming the place; what validate() refuses.
Result<ChoiceProblem> problem_from_json(const Json& json,
                                        const std::string& what);

}  // namespace shardwright::solver
