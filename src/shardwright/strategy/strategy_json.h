// JSON form of strategies, for the Python side, tests and reports.
#pragma once

#include <string>

#include "shardwright/base/result.h"
#include "shardwright/strategy/strategy.h"

namespace shardwright::strategy {

// {"text", "factor_of_axis", "operands": ["S0,D"], "results", "local_factors",
//  "variant": name|null, "variant_args", "local_attrs",
//  "collectives": [{"kind", "axis", "bytes", "backward"}]}, axes by name.
Json strategy_to_json(const Strategy& strategy, const mesh::DeviceMesh& mesh);

// From the text of a graph file and of a mesh {"axes": [{"name", "size"}]}: one
// entry per op, {"key", "has_rule", "strategies": [...]}.
// Errors: kParseError, kInvalidGraph, kInvalidMesh.
Result<std::string> strategies_text(const std::string& graph_json,
                                    const std::string& mesh_json);

}  // namespace shardwright::strategy
