// Stored graphs and plans (tests/cases/plans), and steps of tests' own.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "shardwright/base/json.h"
#include "shardwright/ir/graph.h"
#include "shardwright/plan/plan.h"

namespace shardwright::plan {

inline Json stored(const std::string& name) {
  return read_json_file(
             fmt::format("{}/tests/cases/plans/{}.json", SW_SOURCE_DIR, name))
      .value();
}
inline ir::Graph stored_graph(const std::string& name) {
  return ir::graph_from_json(stored(name)).value();
}
inline Plan stored_plan(const std::string& name) {
  return plan_from_json(stored(name)).value();
}

// The stored plan shared_2, which gathers its weight for each reader, with one
// copy that serves them all.
inline Plan shared_with_one_copy(bool regather) {
  Plan plan = stored_plan("shared_2");
  std::vector<Step> steps;
  for (Step& step : plan.steps) {
    if (step.kind == StepKind::kConvert) {
      if (!steps.empty()) continue;
      step.regather = regather;
    }
    for (std::string& buffer : step.in) {
      if (buffer.starts_with("w@")) buffer = "w@R";
    }
    steps.push_back(step);
  }
  plan.steps = std::move(steps);
  return plan;
}

// A conversion that hands on the result of another one.
inline Step identity_of(const Step& conversion, const std::string& out) {
  Step same = conversion;
  same.in = conversion.out;
  same.out = {out};
  same.from = same.to;
  same.from_grad = same.to_grad;
  same.forward.clear();
  same.backward.clear();
  same.regather = false;
  return same;
}

}  // namespace shardwright::plan
