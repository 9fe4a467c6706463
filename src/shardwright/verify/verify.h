// verify: the independent checker of plans.
//
// Takes a graph and a plan and works out again, with code of its own, all that
// makes the plan right: that the program is the graph's, that every layout
// follows from the op's factor rule, that conversions lead where they say, that
// gradients arrive in the layout they are taken in, and that the sums the plan
// states (memory, time, collectives) are those of its program. It knows neither
// strategies nor solvers nor the simulator; the rules of the ops and the
// profile records are taken as given.
//
// What is not checked: that an op's rule is right (tests run every rule on
// simulated ranks), and the plan's lower bound beyond bound <= cost.
//
// Memory is judged by two estimates of its own over closed and open lives: the
// plan's peak must lie between them (see memory.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shardwright/base/json.h"
#include "shardwright/base/result.h"
#include "shardwright/ir/graph.h"
#include "shardwright/plan/plan.h"

namespace shardwright::verify {

// One thing that is wrong: "expected X, got Y", and where in the plan.
struct Finding {
  std::string what;
  std::string where;
  bool operator==(const Finding&) const = default;
};

struct Report {
  bool ok = false;  // no findings
  std::vector<Finding> findings;
  // False: the program itself is wrong, so that the numbers below would be of
  // another one; they stay 0.
  bool complete = false;
  std::int64_t lowest_peak_bytes = 0;  // the true peak is not below it
  std::int64_t peak_bytes = 0;         // and not above this one
  std::string peak_at;                 // where the upper estimate peaks
  std::int64_t objective_ps = 0;       // cost, added up again
  double communication_s = 0;
  std::vector<plan::CollectiveCount> collectives;  // counted again
};

// Complexity: O(steps x (mesh axes x op size)), a few milliseconds for a model
// of a thousand ops. Errors: kInvalidGraph (the graph itself is broken),
// kInvalidMesh. Everything wrong with the plan is a finding.
Result<Report> verify_plan(const ir::Graph& graph, const plan::Plan& plan);

// {"ok", "complete", "findings": [{"where", "what"}], "lowest_peak_bytes",
// "peak_bytes", "peak_at", "objective_ps", "communication_s", "collectives"}.
Json to_json(const Report& report);

// The same on text, for Python and the command line.
Result<std::string> verify_plan_text(const std::string& graph_json,
                                     const std::string& plan_json);

}  // namespace shardwright::verify
