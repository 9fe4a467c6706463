// Makes a problem that shows a mistake small enough to be read.
#pragma once

#include <functional>

#include "shardwright/solver/choice_problem.h"

namespace shardwright::solver {

// Drops nodes, edges, choices, intervals, the limit and costs one by one, as
// long as `fails` stays true, until nothing more can go. `fails(problem)` must
// be true; it is only called with valid problems. Calls: at most about (parts
// of the problem)^2.
ChoiceProblem shrink_problem(
    ChoiceProblem problem,
    const std::function<bool(const ChoiceProblem&)>& fails);

}  // namespace shardwright::solver
