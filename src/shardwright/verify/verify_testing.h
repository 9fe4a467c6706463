// How tests break stored plans, and what is found.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "shardwright/base/json.h"
#include "shardwright/ir/graph.h"
#include "shardwright/plan/plan.h"
#include "shardwright/plan/plan_testing.h"
#include "shardwright/verify/verify.h"

namespace shardwright::verify {

using plan::stored;
using plan::stored_graph;
using plan::stored_plan;

inline plan::Step& op_step(plan::Plan& plan, const std::string& op) {
  for (plan::Step& step : plan.steps) {
    if (step.kind == plan::StepKind::kOp && step.op == op) return step;
  }
  ADD_FAILURE() << "no step of op " << op;
  return plan.steps.front();
}
inline plan::Step& conversion(plan::Plan& plan, const std::string& value) {
  for (plan::Step& step : plan.steps) {
    if (step.kind == plan::StepKind::kConvert && step.value == value) {
      return step;
    }
  }
  ADD_FAILURE() << "no conversion of " << value;
  return plan.steps.front();
}

// "where: what" of every finding.
inline std::vector<std::string> findings_of(const ir::Graph& graph,
                                            const plan::Plan& plan) {
  std::vector<std::string> out;
  const auto report = verify_plan(graph, plan);
  if (!report) return {report.error().message};
  EXPECT_EQ(report->ok, report->findings.empty());
  for (const Finding& finding : report->findings) {
    out.push_back(finding.where + ": " + finding.what);
  }
  return out;
}

// Some finding holds both texts.
MATCHER_P2(Reports, where, what,
           std::string("has a finding at '") + where + "' saying '" + what +
               "'") {
  for (const std::string& finding : arg) {
    const auto colon = finding.find(": ");
    if (finding.substr(0, colon).find(where) != std::string::npos &&
        finding.find(what) != std::string::npos) {
      return true;
    }
  }
  return false;
}

}  // namespace shardwright::verify
