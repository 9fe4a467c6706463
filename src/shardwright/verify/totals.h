// The sums a plan states, added up again from its program: collectives, cost,
// times.
#pragma once

#include <cstdint>
#include <vector>

#include "shardwright/verify/program.h"

namespace shardwright::verify::internal {

// What one step issues at coordinate 0, sorted by kind, axis, bytes. A
// recomputed step issues its forward collectives again; a copy that is
// gathered again does so once for the backward of its reader.
std::vector<plan::CollectiveCount> count_again(const Program& program);

// Time of one training step in the plan's unit without overlap: kernels at
// local sizes, collectives, local copies of conversions, the optimizer's memory
// traffic. Errors: kInvalidPlan (unknown optimizer).
Result<std::int64_t> cost_again(const Program& program);

// Compares them with the plan's and fills the report.
void check_totals(const Program& program, Report& report, Findings& findings);

}  // namespace shardwright::verify::internal
