#include <string>

#include "bind.h"
#include "graph_text.h"
#include "shardwright/base/json.h"

namespace shardwright::bindings {

Result<ir::Graph> parse_graph(const std::string& graph_json) {
  SW_ASSIGN_OR_RETURN(const Json json, parse_json(graph_json, "graph"));
  SW_ASSIGN_OR_RETURN(ir::Graph graph, ir::graph_from_json(json));
  SW_RETURN_IF_ERROR(ir::verify_graph(graph));
  return graph;
}

void bind_ir(nb::module_& module) {
  module.def(
      "graph_hash",
      [](const std::string& graph_json) {
        return without_gil(
            [&] { return parse_graph(graph_json).map(ir::graph_hash); });
      },
      "graph_json"_a,
      "SHA-256 of what decides the program (no records, no batch). Raises "
      "InvalidGraphError naming the op or value, VersionMismatchError for a "
      "file of another version.");
  module.def(
      "graph_text",
      [](const std::string& graph_json) {
        return without_gil(
            [&] { return parse_graph(graph_json).map(ir::graph_to_text); });
      },
      "graph_json"_a, "One line per op, for people. Raises like graph_hash.");
}

}  // namespace shardwright::bindings
