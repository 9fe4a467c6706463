#include "shardwright/strategy/strategy_json.h"

#include <fmt/format.h>

namespace shardwright::strategy {
namespace {

Json ports_json(const std::vector<sharding::Port>& ports) {
  Json out = Json::array();
  for (const sharding::Port& port : ports) out.push_back(to_string(port));
  return out;
}

// Names and sizes are all that strategies depend on.
Result<mesh::DeviceMesh> mesh_from_text(const std::string& text) {
  SW_ASSIGN_OR_RETURN(const Json json, parse_json(text, "mesh"));
  SW_ASSIGN_OR_RETURN(const Json* axes, get_array(json, "axes", "mesh"));
  mesh::DeviceMesh mesh;
  for (const Json& entry : *axes) {
    mesh::MeshAxis axis;
    SW_ASSIGN_OR_RETURN(axis.name, get_string(entry, "name", "mesh.axes"));
    SW_ASSIGN_OR_RETURN(axis.size, get_int(entry, "size", "mesh.axes"));
    if (axis.size < 1 || axis.size > mesh::kMaxDevices) {
      return make_error(
          ErrorCode::kInvalidMesh,
          fmt::format("[strategy] axis '{}' has size {}: expected 1 to {}",
                      axis.name, axis.size, mesh::kMaxDevices));
    }
    mesh.axes.push_back(std::move(axis));
  }
  if (mesh.axes.empty() || mesh.axes.size() > mesh::kMaxAxes) {
    return make_error(ErrorCode::kInvalidMesh,
                      fmt::format("[strategy] a mesh has 1 to {} axes, got {}",
                                  mesh::kMaxAxes, mesh.axes.size()));
  }
  return mesh;
}

}  // namespace

Json strategy_to_json(const Strategy& strategy, const mesh::DeviceMesh& mesh) {
  Json collectives = Json::array();
  for (const InternalCollective& collective : strategy.collectives) {
    const auto axis = static_cast<std::size_t>(collective.axis);
    collectives.push_back({{"kind", mesh::to_string(collective.kind)},
                           {"axis", mesh.axes[axis].name},
                           {"bytes", collective.bytes.value},
                           {"backward", collective.backward}});
  }
  return {
      {"text", strategy.text},
      {"factor_of_axis", strategy.factor_of_axis},
      {"operands", ports_json(strategy.operands)},
      {"results", ports_json(strategy.results)},
      {"local_factors", strategy.local_factors},
      {"variant", strategy.variant.empty() ? Json() : Json(strategy.variant)},
      {"variant_args", strategy.variant_args},
      {"local_attrs", strategy.local_attrs},
      {"collectives", std::move(collectives)}};
}

Result<std::string> strategies_text(const std::string& graph_json,
                                    const std::string& mesh_json) {
  SW_ASSIGN_OR_RETURN(const mesh::DeviceMesh mesh, mesh_from_text(mesh_json));
  SW_ASSIGN_OR_RETURN(const Json json, parse_json(graph_json, "graph"));
  SW_ASSIGN_OR_RETURN(const ir::Graph graph, ir::graph_from_json(json));
  Json out = Json::array();
  for (const ir::Op& op : graph.ops) {
    const StrategySet set =
        enumerate_strategies(graph, op, rules::rule_of(graph, op), mesh);
    Json list = Json::array();
    for (const Strategy& strategy : set.strategies) {
      list.push_back(strategy_to_json(strategy, mesh));
    }
    out.push_back({{"key", op.key},
                   {"has_rule", set.has_rule},
                   {"strategies", std::move(list)}});
  }
  return out.dump();
}

}  // namespace shardwright::strategy
