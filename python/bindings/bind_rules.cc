#include <string>

#include "bind.h"
#include "graph_text.h"
#include "shardwright/base/json.h"
#include "shardwright/rules/rule.h"

namespace shardwright::bindings {

void bind_rules(nb::module_& module) {
  module.def(
      "factor_maps",
      [](const std::string& graph_json) {
        return without_gil([&]() -> Result<std::string> {
          SW_ASSIGN_OR_RETURN(const ir::Graph graph, parse_graph(graph_json));
          return rules::factor_maps(graph).dump();
        });
      },
      "graph_json"_a,
      "Sharding factors of every op of a graph, in the order of its ops, as "
      "JSON.");
}

}  // namespace shardwright::bindings
