// `shardwright plan`: the best plan for a profiled graph on a cluster. A model
// (file.py:function) needs torch: Python captures it, with the same options.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "command.h"
#include "python_handoff.h"
#include "run_control.h"
#include "shardwright/base/units.h"
#include "shardwright/planner/entry.h"

namespace shardwright::cli {
namespace {

constexpr const char* kFooter =
    "TARGET is a graph file (.json, from `shardwright profile`) or "
    "file.py:function; the\nfunction returns (model, batch) or (model, batch, "
    "loss).\n"
    "\n"
    "Examples:\n"
    "  shardwright plan graph.json --cluster '8 h100' -o plan.json\n"
    "  shardwright plan graph.json --cluster '2x8 a100-80g' --memory 70GiB "
    "--mesh 2,8\n"
    "  shardwright plan model.py:make --cluster '4 cpu' -o plan.json\n"
    "  shardwright plan graph.json --cluster '4 cpu' --pin "
    "'storage:*.weight=[a, ...]'";

struct Arguments {
  std::string target;
  std::string cluster;
  std::string memory;
  std::string optimizer = "adamw";
  std::vector<std::int64_t> mesh;
  std::vector<std::string> axes;
  std::vector<std::string> pins;
  double gap = 1e-3;
  double time_limit_s = 60;
  std::uint64_t seed = 0;
  bool no_recompute = false;
};

// "storage:*.weight=[a, ...]"
Result<Json> pin_of(const std::string& text) {
  const auto colon = text.find(':');
  const auto equals = text.rfind('=');
  if (colon == std::string::npos || equals == std::string::npos ||
      equals < colon) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("[cli] --pin: expected KIND:TARGET=SPEC, got '{}'. Try: "
                    "--pin 'storage:*.weight=[a, ...]'",
                    text));
  }
  return Json{{"kind", text.substr(0, colon)},
              {"target", text.substr(colon + 1, equals - colon - 1)},
              {"spec", text.substr(equals + 1)}};
}

Result<Json> options_of(const Arguments& arguments) {
  Json options = {
      {"cluster", arguments.cluster}, {"optimizer", arguments.optimizer},
      {"gap", arguments.gap},         {"time_limit_s", arguments.time_limit_s},
      {"seed", arguments.seed},       {"recompute", !arguments.no_recompute}};
  if (!arguments.mesh.empty()) options["mesh"] = arguments.mesh;
  if (!arguments.axes.empty()) options["axes"] = arguments.axes;
  if (!arguments.memory.empty()) {
    const Bytes limit = parse_bytes(arguments.memory);
    if (limit.value < 0) {
      return make_error(
          ErrorCode::kInvalidArgument,
          fmt::format("[cli] --memory: expected a size, got '{}'. Try: "
                      "--memory 70GiB",
                      arguments.memory));
    }
    options["memory_limit_bytes"] = limit.value;
  }
  for (const std::string& text : arguments.pins) {
    SW_ASSIGN_OR_RETURN(Json pin, pin_of(text));
    options["pins"].push_back(std::move(pin));
  }
  return options;
}

std::string summary_of(const Json& plan) {
  const Json& predicted = plan.at("predicted");
  const Json& objective = plan.at("objective");
  std::vector<std::string> axes;
  for (const Json& axis : plan.at("mesh").at("axes")) {
    axes.push_back(fmt::format("{}={}", axis.at("name").get<std::string>(),
                               axis.at("size").get<std::int64_t>()));
  }
  std::string text = fmt::format(
      "graph   {}\nmesh    {}\ntime    {} a step, predicted\n"
      "memory  {} a device, predicted\n"
      "bound   {}; cost is at most {:.3g} % above it ({})\n",
      plan.at("graph_name").get<std::string>(), fmt::join(axes, " x "),
      human(Seconds(predicted.at("time_s").get<double>())),
      human(Bytes(predicted.at("peak_bytes").get<std::int64_t>())),
      human(to_seconds(
          Picoseconds(objective.at("bound_ps").get<std::int64_t>()))),
      100 * objective.at("gap").get<double>(),
      objective.at("covers").get<std::string>());
  for (const Json& warning : plan.at("warnings")) {
    text += fmt::format("warning {}\n", warning.get<std::string>());
  }
  return text;
}

// The plan goes to -o, a summary to standard output; with --json the plan
// itself.
Result<bool> plan_graph(const Arguments& arguments,
                        const OutputOptions& output) {
  SW_ASSIGN_OR_RETURN(const Json options, options_of(arguments));
  SW_ASSIGN_OR_RETURN(const std::string graph,
                      read_text_file(arguments.target));
  ProgressLine line(output.quiet);
  catch_interrupt();
  planner::RunHooks hooks;
  hooks.interrupted = interrupted;
  hooks.progress = [&line](const std::string& text) { line.show(text); };
  SW_ASSIGN_OR_RETURN(const std::string text,
                      planner::make_plan_text(graph, options.dump(), hooks));
  SW_ASSIGN_OR_RETURN(const Json plan, parse_json(text, "plan"));
  if (!output.path.empty()) {
    SW_RETURN_IF_ERROR(write_text_file(output.path, text + "\n"));
    if (output.json) return true;
  }
  OutputOptions printed = output;
  printed.path.clear();
  return write_answer(printed, summary_of(plan), plan);
}

void run_plan(const Arguments& arguments, Session& session) {
  if (arguments.target.ends_with(".json")) {
    session.finish(plan_graph(arguments, session.output));
  } else {
    session.finish(tl::unexpected(exec_python_module(session.arguments)));
  }
}

}  // namespace

void add_plan(CLI::App& command, Session& session) {
  auto arguments = std::make_shared<Arguments>();
  command.add_option("TARGET", arguments->target, "Graph file or model")
      ->required();
  command
      .add_option("--cluster", arguments->cluster,
                  "'[HOSTS x] DEVICES NAME' or a cluster file")
      ->required();
  command.add_option("--memory", arguments->memory,
                     "Limit per device (70GiB); default: none");
  command.add_option("--optimizer", arguments->optimizer)
      ->capture_default_str();
  command
      .add_option("--mesh", arguments->mesh,
                  "Sizes of the mesh axes; default: the best of all meshes")
      ->delimiter(',');
  command
      .add_option("--axes", arguments->axes,
                  "Names of the mesh axes; default: a, b, ...")
      ->delimiter(',');
  command.add_option(
      "--pin", arguments->pins,
      "Force a part of the plan, KIND:TARGET=SPEC with KIND placement, storage "
      "or recompute and TARGET a name with '*' and '?'; may be repeated");
  command
      .add_option("--gap", arguments->gap,
                  "Stop when (cost - bound) / cost is at most this")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  command.add_option("--time-limit", arguments->time_limit_s, "In seconds")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command.add_option("--seed", arguments->seed, "Breaks ties")
      ->capture_default_str();
  command.add_flag("--no-recompute", arguments->no_recompute,
                   "No activation is recomputed");
  add_output_options(command, session.output);
  command.footer(kFooter);
  command.callback([arguments, &session] { run_plan(*arguments, session); });
}

}  // namespace shardwright::cli
