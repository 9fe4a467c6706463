// The overview of a plan: its program as a table, its collectives, its memory.
#pragma once

#include <string>

#include "shardwright/base/result.h"
#include "shardwright/plan/plan.h"
#include "shardwright/planner/model.h"

namespace shardwright::planner {

// `model` is of the plan's graph and mesh. Errors: kInvalidPlan (a strategy or
// a conversion that this version does not know).
Result<std::string> program_text(const Model& model, const plan::Plan& plan);

}  // namespace shardwright::planner
