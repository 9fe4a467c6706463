// Makes a problem smaller without losing an optimal answer, and takes answers
// of the small problem back.
//
// Every rule keeps at least one optimal choice for the cost under the limit,
// and one for the smallest peak (costs and peaks are kept exactly; memory at a
// position may be forgotten only where it can never exceed the limit).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shardwright/solver/budget.h"
#include "shardwright/solver/choice_problem.h"
#include "shardwright/solver/presolve_data.h"

namespace shardwright::solver::internal {

struct Presolved {
  ChoiceProblem problem;
  std::int64_t offset = 0;  // cost(original) = offset + cost(small)
  // The infinite edges leave some node without a choice.
  bool infeasible = false;
  std::vector<std::int32_t> positions;  // original position of each one kept

  // Small node i stands for the original nodes members[i]; choosing k sets
  // them to member_choice[i][k].
  std::vector<std::vector<std::int32_t>> members;
  std::vector<std::vector<std::vector<std::int32_t>>> member_choice;
  std::int32_t num_original_nodes = 0;

  // Removed choices by rule, for reports: "dominance: 1200 choices".
  std::vector<std::string> summary;
  SharingCounts sharing;

  std::vector<std::int32_t> undo(const std::vector<std::int32_t>& small) const;
};

// `forbidden`: flat choices (in order of nodes) that may be left out, empty
// for none.
Presolved presolve(const ChoiceProblem& problem,
                   const std::vector<bool>& forbidden, Budget* budget);

}  // namespace shardwright::solver::internal
