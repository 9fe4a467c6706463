// Every assignment, one after the other: the oracle of the tests.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "shardwright/solver/choice_problem.h"

namespace shardwright::solver {

struct BruteForceAnswer {
  bool feasible = false;
  std::int64_t cost = kInfinite;
  std::vector<std::int32_t> choice;  // the first of least cost
  // Least peak over all assignments without an infinite edge; no value when
  // there is none.
  std::optional<std::int64_t> smallest_limit;
};

// O(product of choices x size of the problem). Refuses (SW_CHECK) more than
// `max_assignments`.
BruteForceAnswer brute_force(const ChoiceProblem& problem,
                             std::int64_t max_assignments = 2'000'000);

}  // namespace shardwright::solver
