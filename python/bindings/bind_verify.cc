#include <string>

#include "bind.h"
#include "shardwright/planner/explain.h"
#include "shardwright/verify/verify.h"

namespace shardwright::bindings {

void bind_verify(nb::module_& module) {
  module.def(
      "verify_plan",
      [](const std::string& graph_json, const std::string& plan_json) {
        return without_gil(
            [&] { return verify::verify_plan_text(graph_json, plan_json); });
      },
      "graph_json"_a, "plan_json"_a,
      "Checks a plan against its graph with code of its own. Gives the report "
      "as JSON: ok, complete, findings (where, what), the peak's two "
      "estimates, cost and collectives added up again.");
  module.def(
      "explain",
      [](const std::string& graph_json, const std::string& plan_json,
         const std::string& query) {
        return without_gil([&] {
          return planner::explain_text(graph_json, plan_json, query);
        });
      },
      "graph_json"_a, "plan_json"_a, "query"_a = "",
      "A plan as text: with an empty query its program, collectives and "
      "memory; else, for the ops of that key or module path, every strategy "
      "with the cost of the best plan that uses it.");
}

}  // namespace shardwright::bindings
