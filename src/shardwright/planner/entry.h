// Entry: planning as a function of text, for the command line and Python.
#pragma once

#include <functional>
#include <string>

#include "shardwright/base/json.h"
#include "shardwright/base/result.h"
#include "shardwright/planner/options.h"

namespace shardwright::planner {

// What a caller may hook into a long run; never part of the answer.
struct RunHooks {
  std::function<bool()> interrupted;
  std::function<void(const std::string&)> progress;
};

// `graph_json`: a profiled graph. `options_json`: the options of
// options_from_json and
//   "cluster": text ("2x8 a100-80g") or a cluster object,
//   "mesh": [2, 4] and "axes": ["dp", "tp"], both optional; without "mesh" all
//   candidate meshes of the cluster are tried.
// Gives the plan's JSON text.
Result<std::string> make_plan_text(const std::string& graph_json,
                                   const std::string& options_json,
                                   const RunHooks& hooks = {});

// The memory timeline of a plan, for reports and tests:
// {"peak_bytes", "peak_at", "points": [{"at", "level", "peak"}], ...}. Errors:
// those of read_plan_case.
Result<std::string> replay_text(const std::string& graph_json,
                                const std::string& plan_json);

// The choice problem of one mesh ("mesh" required) as JSON.
Result<std::string> choice_problem_text(const std::string& graph_json,
                                        const std::string& options_json);

}  // namespace shardwright::planner
