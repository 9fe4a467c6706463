// A plan with the graph it is of, as read from their texts: what explain and
// replay start from.
#pragma once

#include <string>

#include "shardwright/base/result.h"
#include "shardwright/ir/graph.h"
#include "shardwright/plan/plan.h"

namespace shardwright::planner {

struct PlanCase {
  ir::Graph graph;
  plan::Plan plan;
};

// The checker could follow the plan's program from its first step to the loss,
// so that whoever works on it meets no step, buffer or layout that is not
// there. The plan's sums may be wrong: they are what is looked at.
//
// Errors: kParseError, kVersionMismatch, kInvalidGraph, kInvalidMesh,
// kInvalidPlan (of another graph; a program that is wrong, and where first).
Result<PlanCase> read_plan_case(const std::string& graph_json,
                                const std::string& plan_json);

}  // namespace shardwright::planner
