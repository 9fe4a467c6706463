// Assemble: a choice per node, written out as the plan's program.
#pragma once

#include <cstdint>
#include <vector>

#include "shardwright/plan/plan.h"
#include "shardwright/planner/problem.h"

namespace shardwright::planner {

// Steps, regions, parameters and outputs; not the predictions.
plan::Plan assemble(const Model& model, const PlanningProblem& problem,
                    const std::vector<std::int32_t>& choice);

}  // namespace shardwright::planner
