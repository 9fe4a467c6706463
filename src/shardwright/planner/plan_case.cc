#include "shardwright/planner/plan_case.h"

#include <fmt/format.h>

#include "shardwright/base/json.h"
#include "shardwright/verify/verify.h"

namespace shardwright::planner {
namespace {

Result<bool> check_program(const PlanCase& input) {
  const std::string hash = ir::graph_hash(input.graph);
  if (hash != input.plan.graph_hash) {
    return make_error(ErrorCode::kInvalidPlan,
                      fmt::format("[planner] the plan is of another graph: "
                                  "expected hash {}, got {}. Try: the graph "
                                  "that the plan was made from.",
                                  hash, input.plan.graph_hash));
  }
  SW_ASSIGN_OR_RETURN(const verify::Report report,
                      verify::verify_plan(input.graph, input.plan));
  if (report.complete) return true;
  const verify::Finding& first = report.findings.front();
  return make_error(ErrorCode::kInvalidPlan,
                    fmt::format("[planner] the plan's program is wrong: {} "
                                "({}). Try: plan again.",
                                first.what, first.where));
}

}  // namespace

Result<PlanCase> read_plan_case(const std::string& graph_json,
                                const std::string& plan_json) {
  PlanCase out;
  SW_ASSIGN_OR_RETURN(const Json graph, parse_json(graph_json, "graph"));
  SW_ASSIGN_OR_RETURN(out.graph, ir::graph_from_json(graph));
  SW_ASSIGN_OR_RETURN(const Json plan, parse_json(plan_json, "plan"));
  SW_ASSIGN_OR_RETURN(out.plan, plan::plan_from_json(plan));
  SW_RETURN_IF_ERROR(check_program(out));
  return out;
}

}  // namespace shardwright::planner
