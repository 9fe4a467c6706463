// Graph: one training step's forward ops, captured from a model, as data.
//
// Values are tensors (parameters, buffers, inputs, constants, activations),
// ops read and write them in execution order. The backward pass is not in the
// graph: each op's profile record says what autograd keeps for it and what its
// backward allocates. Identity of values and ops across captures is by name
// (module path and ordinal), never by index.
//
// Invariants (checked by `verify_graph`): ids are in range; every activation
// has exactly one producer and is read only after it; names and keys are
// unique; shapes are non-negative and no value is over kLargestValueBytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shardwright/base/ids.h"
#include "shardwright/base/json.h"
#include "shardwright/base/result.h"
#include "shardwright/ir/dtype.h"

namespace shardwright::ir {

// 256 TiB: sums over ten thousand such tensors still fit 64 bits.
inline constexpr std::int64_t kLargestValueBytes = std::int64_t{1} << 48;

enum class ValueKind { kParameter, kBuffer, kInput, kConstant, kActivation };
std::string_view to_string(ValueKind kind);

struct Value {
  std::string name;  // FQN, input name, or "<op key>#<result>"
  ValueKind kind = ValueKind::kActivation;
  std::vector<std::int64_t> shape;
  DType dtype = DType::kFloat32;
  bool requires_grad = false;
  std::vector<std::string> names;  // all FQNs of a parameter or buffer
  OpId producer;                   // invalid unless an activation
  std::int32_t result_index = 0;   // which result of the producer

  [[nodiscard]] std::int64_t num_elements() const;
  [[nodiscard]] std::int64_t bytes() const;
};

struct Op {
  std::string key;   // "<module>:<op>:<ordinal>", unique
  std::string name;  // "aten.linear.default"
  std::vector<ValueId> operands;
  std::vector<std::string> operand_args;  // schema name of each operand
  std::vector<ValueId> results;
  Json attrs = Json::object();  // non-tensor arguments by schema name
  std::string module;           // module path
  std::string source;           // "file.py:line"
  std::vector<std::string> shape_args;
  bool random = false;
  bool effect = false;       // mutates a buffer
  std::int32_t record = -1;  // index into Graph::records, -1: not profiled

  // "linear" of "aten.linear.default".
  [[nodiscard]] std::string base_name() const;
  // Position of the operand passed as schema argument `arg`, or -1.
  [[nodiscard]] std::int32_t operand_of(std::string_view arg) const;
};

struct Graph {
  std::string name;
  std::string torch_version;
  std::string device;
  std::vector<Value> values;
  std::vector<Op> ops;
  std::vector<Json> records;  // see cost/record.h for the parsed form
  ValueId loss;
  std::vector<ValueId> outputs;
  Json batch = Json::object();  // opaque: how capture rebuilds the batch

  [[nodiscard]] const Value& value(ValueId id) const {
    return values[id.index()];
  }
  [[nodiscard]] const Op& op(OpId id) const { return ops[id.index()]; }
  // Ops that read the value, in order, each once.
  [[nodiscard]] std::vector<std::vector<OpId>> readers() const;
};

// Checks the invariants above. Error: kInvalidGraph naming the op or value.
Result<bool> verify_graph(const Graph& graph);

Result<Graph> graph_from_json(const Json& json);
Json graph_to_json(const Graph& graph);
// SHA-256 over everything that decides the program: values, ops, loss,
// outputs; neither records nor the batch description.
std::string graph_hash(const Graph& graph);
// One line per op, for people and golden tests.
std::string graph_to_text(const Graph& graph);

}  // namespace shardwright::ir
