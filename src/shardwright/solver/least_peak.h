// A bound on the peak that takes no search.
#pragma once

#include <cstdint>

#include "shardwright/solver/choice_problem.h"

namespace shardwright::solver::internal {

// No choice has a lower peak: at every position the bytes of each node's
// smallest choice there, added up. O(choices times the interval ends of their
// node).
std::int64_t least_peak(const ChoiceProblem& problem);

}  // namespace shardwright::solver::internal
