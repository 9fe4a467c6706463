#include "shardwright/planner/state.h"

#include <algorithm>

#include "shardwright/planner/model.h"

namespace shardwright::planner {
namespace {

// Per value: the buffer whose storage it shares, invalid if none.
std::vector<ValueId> buffers_behind(const Model& model) {
  const ir::Graph& graph = *model.graph;
  std::vector<ValueId> out(graph.values.size());
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    if (graph.values[v].kind == ir::ValueKind::kBuffer) out[v] = ValueId(v);
  }
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const ir::Op& op = graph.ops[i];
    const auto& alias = model.class_of(OpId(i)).result_alias;
    for (std::size_t r = 0; r < op.results.size(); ++r) {
      if (alias[r] < 0) continue;
      const ValueId source = op.operands[static_cast<std::size_t>(alias[r])];
      out[op.results[r].index()] = out[source.index()];
    }
  }
  return out;
}

// The op normalises with statistics of its input and only updates the running
// ones.
bool updates_statistics(const ir::Op& op, std::size_t operand) {
  const auto is_set = [&](const char* name) {
    const auto found = op.attrs.find(name);
    return found != op.attrs.end() && found->is_boolean() && found->get<bool>();
  };
  return op.operand_args[operand].starts_with("running_") &&
         ((op.base_name() == "batch_norm" && is_set("training")) ||
          (op.base_name() == "instance_norm" && is_set("use_input_stats")));
}

// Every result is a changed buffer, and nobody reads it under that name.
bool only_updates(const Model& model, const ir::Op& op,
                  const std::vector<ValueId>& buffer) {
  const ir::Graph& graph = *model.graph;
  return op.effect &&
         std::all_of(op.results.begin(), op.results.end(), [&](ValueId id) {
           return buffer[id.index()].valid() &&
                  model.readers[id.index()].empty() &&
                  std::find(graph.outputs.begin(), graph.outputs.end(), id) ==
                      graph.outputs.end();
         });
}

}  // namespace

ChangedState find_changed_state(const Model& model) {
  const ir::Graph& graph = *model.graph;
  const std::vector<ValueId> buffer = buffers_behind(model);
  std::vector<bool> changed(graph.values.size(), false);
  for (const ir::Op& op : graph.ops) {
    if (!op.effect) continue;
    for (const ValueId id : op.operands) {
      const ValueId behind = buffer[id.index()];
      if (behind.valid()) changed[behind.index()] = true;
    }
  }
  ChangedState out;
  for (const ValueId behind : buffer) {
    out.holds.push_back(behind.valid() && changed[behind.index()]);
  }
  for (const ir::Op& op : graph.ops) {
    bool sees = false;
    for (std::size_t k = 0; k < op.operands.size(); ++k) {
      sees = sees ||
             (out.holds[op.operands[k].index()] && !updates_statistics(op, k));
    }
    out.seen_by.push_back(sees && !only_updates(model, op, buffer));
  }
  return out;
}

}  // namespace shardwright::planner
