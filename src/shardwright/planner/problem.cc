#include "shardwright/planner/problem.h"

#include "shardwright/planner/passes/nodes.h"
#include "shardwright/planner/pins.h"

namespace shardwright::planner {

Result<PlanningProblem> make_problem(const Model& model) {
  SW_RETURN_IF_ERROR(check_pins(model));
  PlanningProblem problem;
  problem.choice.num_positions = model.timeline.num_positions;
  problem.choice.limit = model.options.memory_limit_bytes;
  SW_RETURN_IF_ERROR(add_op_nodes(model, problem));
  EdgeTables tables;
  SW_RETURN_IF_ERROR(add_value_nodes(model, tables, problem));
  SW_RETURN_IF_ERROR(add_parameter_nodes(model, tables, problem));
  add_reader_edges(model, tables, problem);
  return problem;
}

}  // namespace shardwright::planner
