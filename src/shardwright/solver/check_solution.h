// A solution from a file, added up again from the problem as stated, beside
// what the file says about it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shardwright/base/json.h"
#include "shardwright/solver/choice_problem.h"
#include "shardwright/solver/evaluate.h"

namespace shardwright::solver {

struct Solution {
  std::vector<std::int32_t> choice;  // per node
  // What is claimed of it, if anything.
  std::optional<std::int64_t> cost;
  std::optional<std::int64_t> bound;
  std::optional<std::int64_t> peak;
};

// Reads {"choice": [...], "cost": ..., "bound": ..., "peak": ...} (an answer of
// answer_json.h; all but "choice" may be missing or null) or the bare list.
// `what` names the file. Error: kParseError.
Result<Solution> solution_from_json(const Json& json, const std::string& what);

// Cost and peak must be what was counted; a bound must not exceed the cost.
struct Claim {
  std::string name;
  std::int64_t claimed = 0;
  std::int64_t counted = 0;
  bool holds = false;
};

struct SolutionCheck {
  Evaluation value;
  bool feasible = false;
  std::vector<Claim> claims;

  bool ok() const;  // feasible, and all claims hold
};

// `problem` must be valid. Error: kInvalidArgument when `solution` does not
// hold one index in range per node.
Result<SolutionCheck> check_solution(const ChoiceProblem& problem,
                                     const Solution& solution,
                                     const std::string& what);

// "cost" (null when forbidden), "peak", "peak_position", "limit", "feasible",
// "claims" and "ok".
Json check_to_json(const ChoiceProblem& problem, const SolutionCheck& check);

}  // namespace shardwright::solver
