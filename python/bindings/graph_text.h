// The graph argument of many bindings: JSON text to a checked Graph.
#pragma once

#include <string>

#include "shardwright/base/result.h"
#include "shardwright/ir/graph.h"

namespace shardwright::bindings {

// Parses and verifies. Errors: kParseError, kInvalidGraph, kVersionMismatch.
Result<ir::Graph> parse_graph(const std::string& graph_json);

}  // namespace shardwright::bindings
