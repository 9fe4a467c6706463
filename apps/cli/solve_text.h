// What `solve` prints when no JSON is asked for.
#pragma once

#include <string>

#include "shardwright/solver/check_solution.h"
#include "shardwright/solver/curve.h"
#include "shardwright/solver/solve.h"

namespace shardwright::cli {

std::string answer_text(const solver::ChoiceProblem& problem,
                        const solver::Answer& answer);
std::string curve_text(const solver::Curve& curve);
std::string check_text(const solver::ChoiceProblem& problem,
                       const solver::SolutionCheck& check);

}  // namespace shardwright::cli
