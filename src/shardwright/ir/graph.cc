#include "shardwright/ir/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace shardwright::ir {
namespace {

tl::unexpected<Error> invalid(std::string text) {
  return make_error(ErrorCode::kInvalidGraph, "[ir] " + std::move(text));
}

// Bytes may be counted in 64 bits, whichever dims are left out or looked at
// first.
Result<bool> verify_shape(const Value& value) {
  std::int64_t most = kLargestValueBytes / size_of(value.dtype);
  for (const std::int64_t size : value.shape) {
    if (size < 0) {
      return invalid(
          fmt::format("value '{}' has a negative size {}", value.name, size));
    }
    most /= std::max<std::int64_t>(size, 1);
    if (most == 0) {
      return invalid(fmt::format(
          "value '{}' is too large: expected at most {} bytes, got {} [{}]",
          value.name, kLargestValueBytes, to_string(value.dtype),
          fmt::join(value.shape, ", ")));
    }
  }
  return true;
}

Result<bool> verify_value(const Graph& graph, std::size_t index) {
  const Value& value = graph.values[index];
  SW_RETURN_IF_ERROR(verify_shape(value));
  if ((value.kind == ValueKind::kActivation) != value.producer.valid()) {
    return invalid(
        fmt::format("value '{}' of kind {} {} a producing op", value.name,
                    to_string(value.kind),
                    value.producer.valid() ? "must not have" : "needs"));
  }
  return true;
}

Result<bool> verify_op(const Graph& graph, std::size_t index) {
  const Op& op = graph.ops[index];
  if (op.operands.size() != op.operand_args.size()) {
    return invalid(fmt::format("op '{}': {} operands but {} argument names",
                               op.key, op.operands.size(),
                               op.operand_args.size()));
  }
  for (const ValueId id : op.operands) {
    if (!id.valid() || id.index() >= graph.values.size()) {
      return invalid(fmt::format("op '{}' reads value {} of {}", op.key,
                                 id.value, graph.values.size()));
    }
    const Value& value = graph.value(id);
    if (value.producer.valid() && value.producer.index() >= index) {
      return invalid(fmt::format("op '{}' reads '{}' before it is produced",
                                 op.key, value.name));
    }
  }
  for (std::size_t r = 0; r < op.results.size(); ++r) {
    const ValueId id = op.results[r];
    if (!id.valid() || id.index() >= graph.values.size() ||
        graph.value(id).producer != OpId(index) ||
        graph.value(id).result_index != static_cast<std::int32_t>(r)) {
      return invalid(
          fmt::format("op '{}': result {} is not its own value", op.key, r));
    }
  }
  return true;
}

Result<bool> verify_names(const Graph& graph) {
  std::set<std::string> names;
  for (const Value& value : graph.values) {
    if (!names.insert(value.name).second) {
      return invalid(fmt::format("two values are named '{}'", value.name));
    }
  }
  std::set<std::string> keys;
  for (const Op& op : graph.ops) {
    if (!keys.insert(op.key).second) {
      return invalid(fmt::format("two ops have the key '{}'", op.key));
    }
  }
  return true;
}

}  // namespace

std::string_view to_string(ValueKind kind) {
  switch (kind) {
    case ValueKind::kParameter:
      return "parameter";
    case ValueKind::kBuffer:
      return "buffer";
    case ValueKind::kInput:
      return "input";
    case ValueKind::kConstant:
      return "constant";
    case ValueKind::kActivation:
      return "activation";
  }
  return "activation";
}

std::int64_t Value::num_elements() const {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

std::int64_t Value::bytes() const { return num_elements() * size_of(dtype); }

std::string Op::base_name() const {
  const auto first = name.find('.');
  if (first == std::string::npos) return name;
  const auto second = name.find('.', first + 1);
  return name.substr(first + 1, second == std::string::npos
                                    ? std::string::npos
                                    : second - first - 1);
}

std::int32_t Op::operand_of(std::string_view arg) const {
  for (std::size_t i = 0; i < operand_args.size(); ++i) {
    if (operand_args[i] == arg) return static_cast<std::int32_t>(i);
  }
  return -1;
}

std::vector<std::vector<OpId>> Graph::readers() const {
  std::vector<std::vector<OpId>> out(values.size());
  for (std::size_t i = 0; i < ops.size(); ++i) {
    for (const ValueId id : ops[i].operands) {
      auto& list = out[id.index()];
      if (list.empty() || list.back() != OpId(i)) list.emplace_back(i);
    }
  }
  return out;
}

Result<bool> verify_graph(const Graph& graph) {
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    SW_RETURN_IF_ERROR(verify_value(graph, i));
  }
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    SW_RETURN_IF_ERROR(verify_op(graph, i));
  }
  if (!graph.loss.valid() || graph.loss.index() >= graph.values.size()) {
    return invalid("the graph names no loss value");
  }
  if (graph.value(graph.loss).num_elements() != 1) {
    return invalid(fmt::format("the loss '{}' is not a scalar",
                               graph.value(graph.loss).name));
  }
  for (const ValueId id : graph.outputs) {
    if (!id.valid() || id.index() >= graph.values.size()) {
      return invalid(fmt::format("output {} is not a value", id.value));
    }
  }
  return verify_names(graph);
}

std::string graph_to_text(const Graph& graph) {
  const auto type = [&](ValueId id) {
    const Value& value = graph.value(id);
    return fmt::format("{}:{}[{}]", value.name, to_string(value.dtype),
                       fmt::join(value.shape, ","));
  };
  std::string out =
      fmt::format("graph {} ({} ops)\n", graph.name, graph.ops.size());
  for (const Op& op : graph.ops) {
    std::vector<std::string> results;
    for (const ValueId id : op.results) results.push_back(type(id));
    std::vector<std::string> operands;
    for (const ValueId id : op.operands) {
      operands.push_back(graph.value(id).name);
    }
    out += fmt::format("{} = {}({}){}\n", fmt::join(results, ", "), op.name,
                       fmt::join(operands, ", "),
                       op.attrs.empty() ? "" : " " + op.attrs.dump());
  }
  out += fmt::format("loss {}\n", graph.value(graph.loss).name);
  return out;
}

}  // namespace shardwright::ir
