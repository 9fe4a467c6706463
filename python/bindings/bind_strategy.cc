#include "bind.h"
#include "shardwright/strategy/strategy_json.h"

namespace shardwright::bindings {

void bind_strategy(nb::module_& module) {
  module.def(
      "strategies",
      [](const std::string& graph_json, const std::string& mesh_json) {
        return without_gil(
            [&] { return strategy::strategies_text(graph_json, mesh_json); });
      },
      "graph_json"_a, "mesh_json"_a,
      "All strategies of each op on a mesh {\"axes\": [{\"name\", \"size\"}]}. "
      "Raises InvalidGraphError.");
}

}  // namespace shardwright::bindings
