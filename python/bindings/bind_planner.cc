#include <nanobind/stl/optional.h>

#include <functional>
#include <optional>
#include <string>

#include "bind.h"
#include "shardwright/plan/plan.h"
#include "shardwright/planner/entry.h"

namespace shardwright::bindings {
namespace {

// Ctrl-C during a long search: Python's pending signals are looked at.
bool signals_pending() {
  nb::gil_scoped_acquire acquire;
  return PyErr_CheckSignals() != 0;
}

Result<std::string> checked_plan(const std::string& plan_json) {
  SW_ASSIGN_OR_RETURN(const Json json, parse_json(plan_json, "plan"));
  SW_ASSIGN_OR_RETURN(const plan::Plan plan, plan::plan_from_json(json));
  return plan::plan_to_json(plan).dump(1);
}

std::string make_plan(
    const std::string& graph_json, const std::string& options_json,
    const std::optional<nb::typed<nb::callable, void(std::string)>>& progress) {
  planner::RunHooks hooks;
  hooks.interrupted = signals_pending;
  if (progress) {
    hooks.progress = [&](const std::string& text) {
      nb::gil_scoped_acquire acquire;
      (*progress)(text);
    };
  }
  std::string out = without_gil(
      [&] { return planner::make_plan_text(graph_json, options_json, hooks); });
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  return out;
}

}  // namespace

void bind_planner(nb::module_& module) {
  module.def("make_plan", &make_plan, "graph_json"_a, "options_json"_a,
             "progress"_a.none() = nb::none(),
             "Plans a profiled graph; options as JSON: cluster, mesh, axes, "
             "optimizer, memory_limit_bytes, pins, gap, time_limit_s, seed, "
             "recompute. Gives the plan as JSON text.");
  module.def(
      "check_plan",
      [](const std::string& plan_json) {
        return without_gil([&] { return checked_plan(plan_json); });
      },
      "plan_json"_a,
      "The plan as this version writes it. Raises when it is damaged, changed "
      "by hand, or of another version.");
  module.def(
      "replay",
      [](const std::string& graph_json, const std::string& plan_json) {
        return without_gil(
            [&] { return planner::replay_text(graph_json, plan_json); });
      },
      "graph_json"_a, "plan_json"_a,
      "Memory timeline of one training step under a plan, as JSON.");
  module.def(
      "choice_problem",
      [](const std::string& graph_json, const std::string& options_json) {
        return without_gil([&] {
          return planner::choice_problem_text(graph_json, options_json);
        });
      },
      "graph_json"_a, "options_json"_a,
      "The joint choice problem of one mesh as JSON, for second opinions.");
}

}  // namespace shardwright::bindings
