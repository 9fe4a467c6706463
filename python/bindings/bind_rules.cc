#include <string>

#include "bind.h"
#include "shardwright/base/json.h"
#include "shardwright/ir/graph.h"
#include "shardwright/rules/rule.h"

namespace shardwright::bindings {

void bind_rules(nb::module_& module) {
  module.def(
      "factor_maps",
      [](const std::string& graph_json) {
        return without_gil([&]() -> Result<std::string> {
          SW_ASSIGN_OR_RETURN(const Json json, parse_json(graph_json, "graph"));
          SW_ASSIGN_OR_RETURN(const ir::Graph graph, ir::graph_from_json(json));
          return rules::factor_maps(graph).dump();
        });
      },
      "graph_json"_a,
      "Sharding factors of every op of a graph, in the order of its ops, as "
      "JSON.");
  module.def(
      "graph_hash",
      [](const std::string& graph_json) {
        return without_gil([&]() -> Result<std::string> {
          SW_ASSIGN_OR_RETURN(const Json json, parse_json(graph_json, "graph"));
          SW_ASSIGN_OR_RETURN(const ir::Graph graph, ir::graph_from_json(json));
          return ir::graph_hash(graph);
        });
      },
      "graph_json"_a, "Hash of the program a graph describes.");
}

}  // namespace shardwright::bindings
