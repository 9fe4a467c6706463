// `shardwright verify` and `shardwright explain`: what a plan file is worth.
#include <fmt/format.h>

#include <string>

#include "command.h"
#include "shardwright/planner/explain.h"
#include "shardwright/verify/verify.h"

namespace shardwright::cli {
namespace {

constexpr const char* kVerifyFooter =
    "Exit code 2 when something is wrong with the plan.\n"
    "\n"
    "Example:\n"
    "  shardwright profile train.py:step --graph graph.json --quiet\n"
    "  shardwright verify graph.json plan.json";
constexpr const char* kExplainFooter =
    "Examples:\n"
    "  shardwright explain graph.json plan.json\n"
    "  shardwright explain graph.json plan.json transformer.h.0.mlp";

struct Arguments {
  std::string graph;
  std::string plan;
  std::string query;
};

void add_files(CLI::App& command, Arguments& arguments) {
  command.add_option("GRAPH", arguments.graph, "Profiled graph file")
      ->required();
  command.add_option("PLAN", arguments.plan, "Plan file")->required();
}

std::string findings_text(const Json& report) {
  if (report["ok"].get<bool>()) {
    return "the plan is right: peak between " +
           report["lowest_peak_bytes"].dump() + " and " +
           report["peak_bytes"].dump() + " bytes by the checker's own count\n";
  }
  std::string text;
  for (const Json& finding : report["findings"]) {
    text += finding["where"].get<std::string>() + ": " +
            finding["what"].get<std::string>() + "\n";
  }
  return text;
}

// The library knows texts: which files they came from is said here.
tl::unexpected<Error> of_files(Error error, const Arguments& arguments) {
  error.message +=
      " (graph file " + arguments.graph + ", plan file " + arguments.plan + ")";
  return tl::unexpected<Error>(std::move(error));
}

Result<bool> verify(const Arguments& arguments, Session& session) {
  SW_ASSIGN_OR_RETURN(const std::string graph, read_text_file(arguments.graph));
  SW_ASSIGN_OR_RETURN(const std::string plan, read_text_file(arguments.plan));
  const Result<std::string> text = verify::verify_plan_text(graph, plan);
  if (!text) return of_files(text.error(), arguments);
  SW_ASSIGN_OR_RETURN(const Json report, parse_json(*text, "report"));
  SW_RETURN_IF_ERROR(
      write_answer(session.output, findings_text(report), report));
  if (report["ok"].get<bool>()) return true;
  return make_error(
      ErrorCode::kInvalidPlan,
      fmt::format("[verify] the plan is wrong: expected no findings, got {} "
                  "(listed in the answer; plan file {}). Try: plan again.",
                  report["findings"].size(), arguments.plan));
}

Result<bool> explain(const Arguments& arguments, const OutputOptions& output) {
  SW_ASSIGN_OR_RETURN(const std::string graph, read_text_file(arguments.graph));
  SW_ASSIGN_OR_RETURN(const std::string plan, read_text_file(arguments.plan));
  const Result<std::string> text =
      planner::explain_text(graph, plan, arguments.query);
  if (!text) return of_files(text.error(), arguments);
  return write_answer(output, *text, Json{{"text", *text}});
}

}  // namespace

void add_verify(CLI::App& command, Session& session) {
  auto arguments = std::make_shared<Arguments>();
  add_files(command, *arguments);
  add_output_options(command, session.output);
  command.footer(kVerifyFooter);
  command.callback(
      [arguments, &session] { session.finish(verify(*arguments, session)); });
}

void add_explain(CLI::App& command, Session& session) {
  auto arguments = std::make_shared<Arguments>();
  add_files(command, *arguments);
  command.add_option("QUERY", arguments->query,
                     "Op key or module path; left out: the whole plan");
  add_output_options(command, session.output);
  command.footer(kExplainFooter);
  command.callback([arguments, &session] {
    session.finish(explain(*arguments, session.output));
  });
}

}  // namespace shardwright::cli
