// `shardwright explain`: a plan in words, and what each alternative would cost.
#include <string>

#include "command.h"
#include "shardwright/planner/explain.h"

namespace shardwright::cli {
namespace {

constexpr const char* kFooter =
    "Without QUERY: the program, its collectives, and memory where it peaks.\n"
    "With QUERY (an op key or a module path): every strategy of those ops with "
    "the cost\nof the best plan that uses it; this solves once per strategy.\n"
    "\n"
    "Examples:\n"
    "  shardwright explain graph.json plan.json\n"
    "  shardwright explain graph.json plan.json transformer.h.0.mlp.c_fc";

struct Arguments {
  std::string graph;
  std::string plan;
  std::string query;
};

Result<bool> explain_files(const Arguments& arguments,
                           const OutputOptions& output) {
  SW_ASSIGN_OR_RETURN(const std::string graph, read_text_file(arguments.graph));
  SW_ASSIGN_OR_RETURN(const std::string plan, read_text_file(arguments.plan));
  SW_ASSIGN_OR_RETURN(const std::string text,
                      planner::explain_text(graph, plan, arguments.query));
  return write_answer(output, text,
                      {{"query", arguments.query}, {"text", text}});
}

}  // namespace

void add_explain(CLI::App& command, Session& session) {
  auto arguments = std::make_shared<Arguments>();
  command.add_option("GRAPH", arguments->graph, "Profiled graph")->required();
  command.add_option("PLAN", arguments->plan, "Plan of that graph")->required();
  command.add_option("QUERY", arguments->query, "Op key or module path");
  add_output_options(command, session.output);
  command.footer(kFooter);
  command.callback([arguments, &session] {
    session.finish(explain_files(*arguments, session.output));
  });
}

}  // namespace shardwright::cli
