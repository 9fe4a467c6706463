// `shardwright verify`: a plan against its graph, by the independent checker.
#include <fmt/format.h>

#include <string>

#include "command.h"
#include "shardwright/base/units.h"
#include "shardwright/verify/verify.h"

namespace shardwright::cli {
namespace {

constexpr const char* kFooter =
    "Exit code 2 when the plan is wrong; each finding is one line.\n"
    "\n"
    "Examples:\n"
    "  shardwright verify graph.json plan.json\n"
    "  shardwright verify graph.json plan.json --json -o report.json";

struct Arguments {
  std::string graph;
  std::string plan;
};

std::string to_text(const verify::Report& report) {
  std::string text;
  for (const verify::Finding& finding : report.findings) {
    text += fmt::format("wrong: {} ({})\n", finding.what, finding.where);
  }
  if (report.complete) {
    text += fmt::format("peak {} to {} (at {}), cost {}\n",
                        human(Bytes(report.lowest_peak_bytes)),
                        human(Bytes(report.peak_bytes)), report.peak_at,
                        human(to_seconds(Picoseconds(report.objective_ps))));
  }
  return text + (report.ok ? "the plan is right\n"
                           : fmt::format("the plan is wrong: {} finding(s)\n",
                                         report.findings.size()));
}

Result<bool> verify_files(const Arguments& arguments, Session& session) {
  SW_ASSIGN_OR_RETURN(const Json graph_json, read_json_file(arguments.graph));
  SW_ASSIGN_OR_RETURN(const ir::Graph graph, ir::graph_from_json(graph_json));
  SW_ASSIGN_OR_RETURN(const Json plan_json, read_json_file(arguments.plan));
  SW_ASSIGN_OR_RETURN(const plan::Plan plan, plan::plan_from_json(plan_json));
  SW_ASSIGN_OR_RETURN(const verify::Report report,
                      verify::verify_plan(graph, plan));
  if (!report.ok) session.exit_code = kExitInput;
  return write_answer(session.output, to_text(report), verify::to_json(report));
}

}  // namespace

void add_verify(CLI::App& command, Session& session) {
  auto arguments = std::make_shared<Arguments>();
  command.add_option("GRAPH", arguments->graph, "Profiled graph")->required();
  command.add_option("PLAN", arguments->plan, "Plan to check")->required();
  add_output_options(command, session.output);
  command.footer(kFooter);
  command.callback([arguments, &session] {
    session.finish(verify_files(*arguments, session));
  });
}

}  // namespace shardwright::cli
