// make_plan: the planner's one entry. Reads like the documentation: model,
// problem, solve, assemble, judge.
#pragma once

#include <vector>

#include "shardwright/ir/graph.h"
#include "shardwright/mesh/device_mesh.h"
#include "shardwright/plan/plan.h"
#include "shardwright/planner/options.h"
#include "shardwright/solver/choice_problem.h"

namespace shardwright::planner {

// The best plan over the candidate meshes. A mesh whose answer cannot beat
// the best so far (by its bound) is dropped.
// Errors: kInfeasible (what is needed, what binds), kInvalidGraph,
// kInvalidArgument, kInvalidMesh (no mesh given).
Result<plan::Plan> make_plan(const ir::Graph& graph,
                             const std::vector<mesh::DeviceMesh>& meshes,
                             const std::string& cluster,
                             const PlanOptions& options);

// The choice problem of one mesh, for second opinions and benchmarks.
Result<solver::ChoiceProblem> make_choice_problem(const ir::Graph& graph,
                                                  const mesh::DeviceMesh& mesh,
                                                  const PlanOptions& options);

}  // namespace shardwright::planner
