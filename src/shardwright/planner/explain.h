// explain: a plan in words and tables, and what each alternative would cost.
#pragma once

#include <string>

#include "shardwright/base/result.h"

namespace shardwright::planner {

// Empty query: every step of the program with layouts, times and collectives,
// the collectives of a step, and memory where it peaks.
//
// Otherwise the ops whose key or module path is the query, or lies below it
// (the first kMostExplained of them): all strategies of each, with the cost of
// the best plan that runs the op so, everything else free, and what changes
// elsewhere. One solve per strategy, with the plan's mesh, optimizer and
// memory limit; pins are not in a plan, so none are kept.
//
// Errors: kInvalidArgument (nothing matches), those of read_plan_case and of
// make_plan.
Result<std::string> explain_text(const std::string& graph_json,
                                 const std::string& plan_json,
                                 const std::string& query);

}  // namespace shardwright::planner
