// Small graphs for tests of every layer.
#pragma once

#include "shardwright/ir/graph.h"

namespace shardwright::ir {

// Appends a value that no op produces.
inline ValueId add_source(Graph& graph, ValueKind kind, std::string name,
                          std::vector<std::int64_t> shape,
                          DType dtype = DType::kFloat32) {
  Value value;
  value.name = std::move(name);
  value.kind = kind;
  value.shape = std::move(shape);
  value.dtype = dtype;
  value.requires_grad = kind == ValueKind::kParameter;
  if (kind == ValueKind::kParameter || kind == ValueKind::kBuffer) {
    value.names = {value.name};
  }
  graph.values.push_back(std::move(value));
  return ValueId(graph.values.size() - 1);
}

// Appends an op with one result and returns the result.
inline ValueId add_op(Graph& graph, std::string key, std::string name,
                      std::vector<ValueId> operands,
                      std::vector<std::string> args,
                      std::vector<std::int64_t> shape,
                      Json attrs = Json::object()) {
  Op op;
  op.key = std::move(key);
  op.name = std::move(name);
  op.operands = std::move(operands);
  op.operand_args = std::move(args);
  op.attrs = std::move(attrs);
  Value value;
  value.name = op.key + "#0";
  value.shape = std::move(shape);
  for (const ValueId id : op.operands) {
    value.requires_grad = value.requires_grad || graph.value(id).requires_grad;
  }
  value.producer = OpId(graph.ops.size());
  graph.values.push_back(std::move(value));
  const ValueId result(graph.values.size() - 1);
  op.results = {result};
  graph.ops.push_back(std::move(op));
  return result;
}

// Linear(width, hidden, no bias) -> ReLU -> Linear(hidden, width) -> sum.
inline Graph testing_mlp(std::int64_t batch, std::int64_t width,
                         std::int64_t hidden) {
  Graph graph;
  graph.name = "mlp";
  const ValueId w1 =
      add_source(graph, ValueKind::kParameter, "up.weight", {hidden, width});
  const ValueId w2 =
      add_source(graph, ValueKind::kParameter, "down.weight", {width, hidden});
  const ValueId x = add_source(graph, ValueKind::kInput, "x", {batch, width});
  const ValueId h = add_op(graph, "up:linear:0", "aten.linear.default", {x, w1},
                           {"input", "weight"}, {batch, hidden});
  const ValueId r = add_op(graph, "act:relu:0", "aten.relu.default", {h},
                           {"self"}, {batch, hidden});
  const ValueId y = add_op(graph, "down:linear:0", "aten.linear.default",
                           {r, w2}, {"input", "weight"}, {batch, width});
  graph.loss = add_op(graph, ":sum:0", "aten.sum.default", {y}, {"self"}, {});
  graph.outputs = {graph.loss};
  return graph;
}

}  // namespace shardwright::ir
