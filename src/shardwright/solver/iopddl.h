// Problems of the google/iopddl benchmark (the ASPLOS 2025 contest "Intra-
// Operator Parallelism for Distributed Deep Learning") as ChoiceProblems.
//
//   {"problem": {
//      "name": "example", "usage_limit": 50,
//      "nodes": {"intervals": [[30, 70], ...], one half-open one per node
//                "costs": [[15], [55, 65], ...], one number per choice
//                "usages": [[10], [25, 25], ...]},
//      "edges": {"nodes": [[0, 1], ...],
//                "costs": [[30, 40], ...]}}} row by row: all pairs of choices
//
// Costs from 1e18 on are infinite. Files of more than a gigabyte are read in
// one pass; what is kept is each distinct edge table once.
#pragma once

#include <iosfwd>
#include <string>

#include "shardwright/base/result.h"
#include "shardwright/solver/choice_problem.h"

namespace shardwright::solver {

// True when the first bytes of a JSON text look like such a file.
bool looks_like_iopddl(std::string_view head);

// `what` names the file in messages. Errors: kParseError naming the list and
// the entry; what validate() refuses. O(bytes); memory: see above.
Result<ChoiceProblem> read_iopddl(std::istream& stream,
                                  const std::string& what);

}  // namespace shardwright::solver
