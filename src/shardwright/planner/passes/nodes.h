// The passes that write the nodes and edges of the choice problem, in order.
#pragma once

#include "shardwright/planner/model.h"
#include "shardwright/planner/passes/edge_tables.h"
#include "shardwright/planner/problem.h"

namespace shardwright::planner {

// One node per op. Error: kInvalidArgument, a placement pin leaves no strategy.
Result<bool> add_op_nodes(const Model& model, PlanningProblem& problem);

// One node per activation, input, buffer and constant that is read or put out,
// and an edge to its producer.
Result<bool> add_value_nodes(const Model& model, EdgeTables& tables,
                             PlanningProblem& problem);

// One node per parameter, and one per use with an edge to its parameter; one
// constant node for everything that does not depend on the plan. Error:
// kInvalidArgument, a storage pin.
Result<bool> add_parameter_nodes(const Model& model, EdgeTables& tables,
                                 PlanningProblem& problem);

// Edges to readers: ports match, needs are met, regions agree.
void add_reader_edges(const Model& model, EdgeTables& tables,
                      PlanningProblem& problem);

}  // namespace shardwright::planner
