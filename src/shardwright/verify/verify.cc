#include "shardwright/verify/verify.h"

#include "shardwright/verify/gathered_again.h"
#include "shardwright/verify/memory.h"
#include "shardwright/verify/program.h"
#include "shardwright/verify/state.h"
#include "shardwright/verify/totals.h"

namespace shardwright::verify {

Result<Report> verify_plan(const ir::Graph& graph, const plan::Plan& plan) {
  SW_RETURN_IF_ERROR(ir::verify_graph(graph));
  SW_RETURN_IF_ERROR(mesh::validate(plan.mesh));
  Report report;
  internal::Findings findings;
  internal::check_header(graph, plan, findings);
  internal::check_parameters(graph, plan, findings);
  internal::Program program;
  report.complete = internal::follow_program(graph, plan, program, findings);
  internal::check_regions(program, findings);
  if (report.complete) {
    internal::check_state(program, findings);
    internal::check_regathers(program, findings);
    internal::check_outputs(program, findings);
  }
  // Numbers of a broken program would be about another one.
  if (report.complete && findings.count() == 0) {
    internal::check_totals(program, report, findings);
    internal::check_memory(program, report, findings);
  } else {
    report.complete = false;
  }
  report.findings = findings.take();
  report.ok = report.findings.empty();
  return report;
}

Json to_json(const Report& report) {
  Json findings = Json::array();
  for (const Finding& finding : report.findings) {
    findings.push_back({{"where", finding.where}, {"what", finding.what}});
  }
  Json collectives = Json::array();
  for (const plan::CollectiveCount& item : report.collectives) {
    collectives.push_back({{"kind", item.kind},
                           {"axis", item.axis},
                           {"bytes", item.bytes},
                           {"count", item.count}});
  }
  return {{"ok", report.ok},
          {"complete", report.complete},
          {"findings", std::move(findings)},
          {"lowest_peak_bytes", report.lowest_peak_bytes},
          {"peak_bytes", report.peak_bytes},
          {"peak_at", report.peak_at},
          {"objective_ps", report.objective_ps},
          {"communication_s", report.communication_s},
          {"collectives", std::move(collectives)}};
}

Result<std::string> verify_plan_text(const std::string& graph_json,
                                     const std::string& plan_json) {
  SW_ASSIGN_OR_RETURN(const Json graph_text, parse_json(graph_json, "graph"));
  SW_ASSIGN_OR_RETURN(const ir::Graph graph, ir::graph_from_json(graph_text));
  SW_ASSIGN_OR_RETURN(const Json plan_text, parse_json(plan_json, "plan"));
  SW_ASSIGN_OR_RETURN(const plan::Plan plan, plan::plan_from_json(plan_text));
  SW_ASSIGN_OR_RETURN(const Report report, verify_plan(graph, plan));
  return to_json(report).dump();
}

}  // namespace shardwright::verify
