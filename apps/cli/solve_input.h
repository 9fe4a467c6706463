// Choice problems from files, within a time limit.
#pragma once

#include <chrono>
#include <string>

#include "shardwright/base/result.h"
#include "shardwright/solver/choice_problem.h"

namespace shardwright::cli {

using Clock = std::chrono::steady_clock;

// Reads our own JSON or a file of the google/iopddl benchmark, told apart by
// what the file begins with; plain, gzip or xz; "-" is standard input.
// Errors: of the file; kInvalidArgument when `deadline` passes while reading.
Result<solver::ChoiceProblem> read_problem(const std::string& path,
                                           Clock::time_point deadline);

}  // namespace shardwright::cli
