// JSON form of a Graph ("shardwright.graph", version 1).
#include <fmt/format.h>

#include "shardwright/ir/graph.h"

namespace shardwright::ir {
namespace {

constexpr std::int64_t kVersion = 1;

Result<ValueKind> parse_kind(const std::string& text) {
  for (const ValueKind kind :
       {ValueKind::kParameter, ValueKind::kBuffer, ValueKind::kInput,
        ValueKind::kConstant, ValueKind::kActivation}) {
    if (to_string(kind) == text) return kind;
  }
  return make_error(ErrorCode::kInvalidGraph,
                    fmt::format("[ir] unknown value kind '{}'", text));
}

Result<std::vector<std::string>> strings(const Json& object, const char* key,
                                         const std::string& where) {
  std::vector<std::string> out;
  if (!object.contains(key)) return out;
  SW_ASSIGN_OR_RETURN(const Json* list, get_array(object, key, where));
  for (const Json& item : *list) {
    if (!item.is_string()) {
      return make_error(
          ErrorCode::kParseError,
          fmt::format("[ir] {}: '{}' must hold texts", where, key));
    }
    out.push_back(item.get<std::string>());
  }
  return out;
}

Result<std::vector<ValueId>> value_ids(const Json& object, const char* key,
                                       const std::string& where) {
  SW_ASSIGN_OR_RETURN(const std::vector<std::int32_t> numbers,
                      get_indices(object, key, where));
  std::vector<ValueId> out;
  out.reserve(numbers.size());
  for (const std::int32_t number : numbers) out.emplace_back(number);
  return out;
}

Result<Value> value_from_json(const Json& json, const std::string& where) {
  Value value;
  SW_ASSIGN_OR_RETURN(value.name, get_string(json, "name", where));
  SW_ASSIGN_OR_RETURN(const std::string kind, get_string(json, "kind", where));
  SW_ASSIGN_OR_RETURN(value.kind, parse_kind(kind));
  SW_ASSIGN_OR_RETURN(value.shape, get_ints(json, "shape", where));
  SW_ASSIGN_OR_RETURN(const std::string dtype,
                      get_string(json, "dtype", where));
  SW_ASSIGN_OR_RETURN(value.dtype, parse_dtype(dtype));
  SW_ASSIGN_OR_RETURN(value.requires_grad,
                      get_bool(json, "requires_grad", where));
  SW_ASSIGN_OR_RETURN(value.names, strings(json, "names", where));
  return value;
}

Result<Op> op_from_json(const Json& json, const std::string& where) {
  Op op;
  SW_ASSIGN_OR_RETURN(op.key, get_string(json, "key", where));
  SW_ASSIGN_OR_RETURN(op.name, get_string(json, "name", where));
  SW_ASSIGN_OR_RETURN(op.operands, value_ids(json, "operands", where));
  SW_ASSIGN_OR_RETURN(op.operand_args, strings(json, "operand_args", where));
  SW_ASSIGN_OR_RETURN(op.results, value_ids(json, "results", where));
  SW_ASSIGN_OR_RETURN(const Json* attrs, get_object(json, "attrs", where));
  op.attrs = *attrs;
  SW_ASSIGN_OR_RETURN(op.module, get_string(json, "module", where));
  SW_ASSIGN_OR_RETURN(op.source, get_string(json, "source", where));
  SW_ASSIGN_OR_RETURN(op.shape_args, strings(json, "shape_args", where));
  SW_ASSIGN_OR_RETURN(op.random, get_bool(json, "random", where));
  SW_ASSIGN_OR_RETURN(op.effect, get_bool(json, "effect", where));
  if (json.contains("record") && !json["record"].is_null()) {
    SW_ASSIGN_OR_RETURN(op.record, get_index(json, "record", where));
  }
  return op;
}

Result<bool> check_header(const Json& json) {
  SW_ASSIGN_OR_RETURN(const std::string schema,
                      get_string(json, "schema", "graph"));
  if (schema != "shardwright.graph") {
    return make_error(ErrorCode::kParseError,
                      fmt::format("[ir] expected a shardwright.graph file, "
                                  "got '{}'",
                                  schema));
  }
  SW_ASSIGN_OR_RETURN(const std::int64_t version,
                      get_int(json, "version", "graph"));
  if (version != kVersion) {
    return make_error(
        ErrorCode::kVersionMismatch,
        fmt::format("[ir] graph file has version {}, this build reads {}. "
                    "Try: profile the model again with this version.",
                    version, kVersion));
  }
  return true;
}

void link_producers(Graph& graph) {
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    for (std::size_t r = 0; r < op.results.size(); ++r) {
      const ValueId id = op.results[r];
      if (!id.valid() || id.index() >= graph.values.size()) continue;
      graph.values[id.index()].producer = OpId(i);
      graph.values[id.index()].result_index = static_cast<std::int32_t>(r);
    }
  }
}

Json value_to_json(const Value& value) {
  Json json = {{"name", value.name},
               {"kind", to_string(value.kind)},
               {"shape", value.shape},
               {"dtype", to_string(value.dtype)},
               {"requires_grad", value.requires_grad}};
  if (!value.names.empty()) json["names"] = value.names;
  return json;
}

std::vector<std::int32_t> numbers(const std::vector<ValueId>& ids) {
  std::vector<std::int32_t> out;
  out.reserve(ids.size());
  for (const ValueId id : ids) out.push_back(id.value);
  return out;
}

Json op_to_json(const Op& op, bool with_record) {
  Json json = {{"key", op.key},
               {"name", op.name},
               {"operands", numbers(op.operands)},
               {"operand_args", op.operand_args},
               {"results", numbers(op.results)},
               {"attrs", op.attrs},
               {"module", op.module},
               {"source", op.source},
               {"shape_args", op.shape_args},
               {"random", op.random},
               {"effect", op.effect}};
  if (with_record && op.record >= 0) json["record"] = op.record;
  return json;
}

Json header(const Graph& graph) {
  return {{"schema", "shardwright.graph"},
          {"version", kVersion},
          {"name", graph.name},
          {"torch", graph.torch_version},
          {"device", graph.device},
          {"values", Json::array()},
          {"ops", Json::array()}};
}

}  // namespace

Result<Graph> graph_from_json(const Json& json) {
  SW_RETURN_IF_ERROR(check_header(json));
  Graph graph;
  SW_ASSIGN_OR_RETURN(graph.name, get_string(json, "name", "graph"));
  SW_ASSIGN_OR_RETURN(graph.torch_version, get_string(json, "torch", "graph"));
  SW_ASSIGN_OR_RETURN(graph.device, get_string(json, "device", "graph"));
  SW_ASSIGN_OR_RETURN(const Json* values, get_array(json, "values", "graph"));
  for (std::size_t i = 0; i < values->size(); ++i) {
    SW_ASSIGN_OR_RETURN(
        Value value,
        value_from_json((*values)[i], fmt::format("graph.values[{}]", i)));
    graph.values.push_back(std::move(value));
  }
  SW_ASSIGN_OR_RETURN(const Json* ops, get_array(json, "ops", "graph"));
  for (std::size_t i = 0; i < ops->size(); ++i) {
    SW_ASSIGN_OR_RETURN(
        Op op, op_from_json((*ops)[i], fmt::format("graph.ops[{}]", i)));
    graph.ops.push_back(std::move(op));
  }
  if (json.contains("records")) {
    SW_ASSIGN_OR_RETURN(const Json* records,
                        get_array(json, "records", "graph"));
    graph.records.assign(records->begin(), records->end());
  }
  SW_ASSIGN_OR_RETURN(const std::int32_t loss,
                      get_index(json, "loss", "graph"));
  graph.loss = ValueId(loss);
  SW_ASSIGN_OR_RETURN(graph.outputs, value_ids(json, "outputs", "graph"));
  if (json.contains("batch")) graph.batch = json["batch"];
  link_producers(graph);
  SW_RETURN_IF_ERROR(verify_graph(graph));
  return graph;
}

Json graph_to_json(const Graph& graph) {
  Json json = header(graph);
  for (const Value& value : graph.values) {
    json["values"].push_back(value_to_json(value));
  }
  for (const Op& op : graph.ops) json["ops"].push_back(op_to_json(op, true));
  if (!graph.records.empty()) json["records"] = graph.records;
  json["loss"] = graph.loss.value;
  json["outputs"] = numbers(graph.outputs);
  json["batch"] = graph.batch;
  return json;
}

std::string graph_hash(const Graph& graph) {
  Json json = header(graph);
  // The device of capture (meta or cpu) is not part of the program.
  json.erase("device");
  json.erase("name");
  for (const Value& value : graph.values) {
    json["values"].push_back(value_to_json(value));
  }
  for (const Op& op : graph.ops) {
    Json entry = op_to_json(op, false);
    entry.erase("source");
    json["ops"].push_back(std::move(entry));
  }
  json["loss"] = graph.loss.value;
  json["outputs"] = numbers(graph.outputs);
  return sha256_hex(json.dump());
}

}  // namespace shardwright::ir
