#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "shardwright/planner/passes/nodes.h"
#include "shardwright/planner/passes/passage.h"
#include "shardwright/planner/passes/price.h"
#include "shardwright/planner/pins.h"

namespace shardwright::planner {
namespace {

using sharding::Port;
using sharding::Symbol;

Symbol shard(std::int32_t dim) {
  return Symbol{Symbol::kShard, static_cast<std::int8_t>(dim)};
}

// Dims a parameter may be stored split along: those some reader computes in,
// and the first two (any even split serves a storage).
std::set<std::int32_t> storage_dims(const Model& model, ValueId id) {
  const ir::Value& value = model.graph->value(id);
  std::set<std::int32_t> dims;
  for (std::int32_t d = 0;
       d <
       std::min<std::int32_t>(2, static_cast<std::int32_t>(value.shape.size()));
       ++d) {
    dims.insert(d);
  }
  for (const Reader& reader : model.readers[id.index()]) {
    const OpClass& op_class = model.class_of(reader.op);
    for (const PricedStrategy& priced : op_class.priced) {
      for (const Symbol& symbol :
           op_class.set.strategies[static_cast<std::size_t>(priced.index)]
               .operands[static_cast<std::size_t>(reader.operands.front())]) {
        if (symbol.kind == Symbol::kShard) dims.insert(symbol.dim);
      }
    }
  }
  return dims;
}

// Storage specs: per axis whole or split along a dim that is large enough for
// every axis that splits it.
std::vector<Port> storage_ports(const Model& model, ValueId id) {
  const ir::Value& value = model.graph->value(id);
  const std::set<std::int32_t> dims = storage_dims(model, id);
  std::vector<Port> ports = {Port()};
  for (std::size_t axis = 0; axis < model.mesh.axes.size(); ++axis) {
    std::vector<Port> longer;
    for (const Port& port : ports) {
      Port whole = port;
      whole.push_back(Symbol{});
      longer.push_back(std::move(whole));
      if (model.mesh.axes[axis].size == 1) continue;
      for (const std::int32_t dim : dims) {
        std::int64_t ranks = model.mesh.axes[axis].size;
        for (std::size_t a = 0; a < axis; ++a) {
          if (port[a] == shard(dim)) ranks *= model.mesh.axes[a].size;
        }
        if (value.shape[static_cast<std::size_t>(dim)] < ranks) continue;
        Port split = port;
        split.push_back(shard(dim));
        longer.push_back(std::move(split));
      }
    }
    ports = std::move(longer);
  }
  return ports;
}

// The readers of a parameter from the last to the first: the order in which
// its gradient gathers contributions.
std::vector<OpId> readers_backward(const Model& model, ValueId id) {
  std::vector<OpId> out;
  for (const Reader& reader : model.readers[id.index()]) {
    out.push_back(reader.op);
  }
  std::reverse(out.begin(), out.end());
  return out;
}

solver::Choice storage_choice(const Model& model, ValueId id,
                              const Port& storage, std::int32_t position) {
  const ir::Value& value = model.graph->value(id);
  const std::int64_t bytes = port_bytes(model, id, storage);
  const cost::Optimizer& optimizer = model.optimizer;
  const Timeline& timeline = model.timeline;
  const std::int32_t last = timeline.num_positions - 1;
  solver::Choice out;
  add_interval(out.intervals, 0, last, bytes);
  if (!value.requires_grad) return out;
  add_interval(out.intervals, 0, last,
               optimizer.state_copies * bytes + optimizer.state_constant);
  const auto order = readers_backward(model, id);
  const std::int32_t use =
      timeline.slot_of_use.at({order.front().value, id.value});
  add_interval(out.intervals,
               std::min(timeline.backward_of(order.front()),
                        timeline.backward[static_cast<std::size_t>(use)]),
               last, bytes);
  add_interval(out.intervals, position, position,
               optimizer.own_copies * bytes + optimizer.scalar_bytes);
  add_interval(out.intervals, position + 1, position + 1,
               optimizer.previous_copies * bytes);
  const double traffic = optimizer.traffic_copies * static_cast<double>(bytes);
  out.cost =
      model.unit.count(Seconds(traffic / model.mesh.device.memory_bandwidth));
  return out;
}

// One use under one fate. `first` says whether its gradient contribution is
// the first of the parameter's.
struct UseContext {
  const Model* model = nullptr;
  OpId op;
  ValueId id;
  const ir::Value* value = nullptr;
  Life life;
  bool first = false;
};

UsePassage passage_of(const UseContext& c, const Port& storage,
                      const PortConversion& conversion) {
  UsePassage out;
  out.gathers = !conversion.forward_identity();
  out.converts_gradient = !conversion.backward_identity();
  out.forward_temporary = conversion.forward_temporary;
  out.backward_temporary = conversion.backward_temporary;
  if (!c.first) out.contribution = gradient_bytes(*c.model, c.id, storage);
  return out;
}

// How often the gather runs: again in a regather or a recompute.
std::int64_t gathers(const UseContext& c, const UseChoice& choice) {
  const bool again = choice.recompute && runs_again(*c.model, c.life.home_slot);
  return choice.regather || again ? 2 : 1;
}

void add_gathered(const UseContext& c, const UseChoice& choice,
                  std::vector<solver::MemoryInterval>& out) {
  const Timeline& timeline = c.model->timeline;
  const auto again = [&](std::int32_t slot) {
    return timeline.recompute[static_cast<std::size_t>(slot)];
  };
  const std::int64_t bytes = port_bytes(*c.model, c.id, choice.compute);
  const std::int64_t temporary = choice.passage.forward_temporary;
  const std::int32_t slot = c.life.home_slot;
  const std::int32_t op_slot = timeline.forward_of(c.op);
  const std::int32_t op_backward = timeline.backward_of(c.op);
  std::int32_t forward_end = std::max(op_slot, c.life.last_forward);
  if (choice.regather) {
    forward_end = op_slot;
    add_interval(out, op_backward, op_backward, bytes + temporary);
  } else if (choice.recompute) {
    if (runs_again(*c.model, slot)) {
      std::int32_t to =
          timeline.recomputed_by(std::max(op_slot, c.life.last_internal_slot));
      if (choice.saved) to = std::max(to, c.life.internal_end);
      add_interval(out, again(slot), to, bytes);
      add_interval(out, again(slot), again(slot), temporary);
    }
  } else if (choice.saved) {
    forward_end = std::max(forward_end, c.life.internal_end);
  }
  add_interval(out, slot, forward_end, bytes);
  add_interval(out, slot, slot, temporary);
}

solver::Choice use_choice(const UseContext& c, const UseChoice& choice) {
  const Timeline& timeline = c.model->timeline;
  solver::Choice out;
  const UsePassage& passage = choice.passage;
  if (passage.gathers) add_gathered(c, choice, out.intervals);
  if (!c.value->requires_grad) return out;
  const std::int32_t op_backward = timeline.backward_of(c.op);
  const std::int32_t use_backward =
      timeline.backward[static_cast<std::size_t>(c.life.home_slot)];
  if (passage.converts_gradient) {
    add_interval(out.intervals, op_backward, use_backward,
                 gradient_bytes(*c.model, c.id, choice.compute));
    add_interval(out.intervals, use_backward, use_backward,
                 passage.backward_temporary);
  }
  const std::int32_t when =
      passage.converts_gradient ? use_backward : op_backward;
  add_interval(out.intervals, when, when, passage.contribution);
  return out;
}

std::vector<UseChoice> choices_of_use(
    const UseContext& c, const Reader& reader,
    const std::vector<ParameterChoice>& storages) {
  const OpClass& op_class = c.model->class_of(reader.op);
  const bool through_view =
      std::find(op_class.result_alias.begin(), op_class.result_alias.end(),
                reader.operands.front()) != op_class.result_alias.end();
  const bool recomputable = c.life.home_region >= 0;
  const bool may_be_saved = c.life.internal_end >= 0;
  std::vector<UseChoice> out;
  for (const Port& compute : reader_ports(*c.model, reader)) {
    std::set<UsePassage> passages;
    for (const ParameterChoice& storage : storages) {
      const PortConversion& conversion =
          convert_port(*c.model, c.id, storage.storage, compute);
      if (!conversion.possible) continue;
      passages.insert(passage_of(c, storage.storage, conversion));
    }
    for (const UsePassage& passage : passages) {
      const auto push = [&](bool recompute, bool regather, bool saved) {
        out.push_back({compute, passage, recompute, regather, saved});
      };
      for (const bool recompute : {false, true}) {
        if (recompute && !recomputable) continue;
        push(recompute, false, true);
        if (!passage.gathers || !may_be_saved) continue;
        push(recompute, false, false);
        if (!recompute && !through_view) push(false, true, true);
      }
    }
  }
  return out;
}

// Storage and compute layout are joined by the conversion between them.
solver::Edge storage_edge(const UseContext& c,
                          const std::vector<ParameterChoice>& storages,
                          const std::vector<UseChoice>& choices,
                          std::int32_t parameter_node, std::int32_t use_node,
                          EdgeTables& tables) {
  // One class per choice is simplest; equal lines are merged by the solver.
  std::vector<std::int64_t> matrix;
  for (const ParameterChoice& storage : storages) {
    for (const UseChoice& choice : choices) {
      const PortConversion& conversion =
          convert_port(*c.model, c.id, storage.storage, choice.compute);
      const bool fits =
          conversion.possible &&
          passage_of(c, storage.storage, conversion) == choice.passage;
      matrix.push_back(fits ? conversion.forward_cost * gathers(c, choice) +
                                  conversion.backward_cost
                            : solver::kInfinite);
    }
  }
  return {parameter_node, use_node,
          tables.matrix(storages.size(), choices.size(), matrix)};
}

void add_use_node(const Model& model, const Reader& reader, ValueId id,
                  bool first, const std::vector<ParameterChoice>& storages,
                  EdgeTables& tables, PlanningProblem& problem) {
  const std::pair<std::int32_t, std::int32_t> key{reader.op.value, id.value};
  const UseContext context{&model,
                           reader.op,
                           id,
                           &model.graph->value(id),
                           life_of_use(model, reader.op, id),
                           first};
  solver::Node node;
  node.name = fmt::format("{} <- {}", model.graph->op(reader.op).key,
                          context.value->name);
  std::vector<UseChoice> choices = choices_of_use(context, reader, storages);
  for (const UseChoice& choice : choices) {
    node.choices.push_back(use_choice(context, choice));
  }
  const auto use_node = static_cast<std::int32_t>(problem.choice.nodes.size());
  problem.choice.edges.push_back(
      storage_edge(context, storages, choices,
                   problem.node_of_parameter[id.index()], use_node, tables));
  problem.node_of_use[key] = use_node;
  problem.use_choices[key] = std::move(choices);
  problem.choice.nodes.push_back(std::move(node));
}

// Bytes that are there whatever the plan: inputs as given, buffers, constants,
// and parameters no op reads.
void add_constant_node(const Model& model, PlanningProblem& problem) {
  std::int64_t bytes = cost::kLoopScalarBytes;
  for (std::size_t i = 0; i < model.graph->values.size(); ++i) {
    const ir::Value& value = model.graph->values[i];
    const bool source = value.kind != ir::ValueKind::kActivation &&
                        value.kind != ir::ValueKind::kParameter;
    const bool unused =
        value.kind == ir::ValueKind::kParameter && model.readers[i].empty();
    if (source || unused) bytes += value.bytes();
  }
  solver::Node node;
  node.name = "constant";
  solver::Choice choice;
  add_interval(choice.intervals, 0, model.timeline.num_positions - 1, bytes);
  node.choices.push_back(std::move(choice));
  problem.choice.nodes.push_back(std::move(node));
}

}  // namespace

Result<bool> add_parameter_nodes(const Model& model, EdgeTables& tables,
                                 PlanningProblem& problem) {
  const ir::Graph& graph = *model.graph;
  problem.node_of_parameter.assign(graph.values.size(), -1);
  problem.parameter_choices.resize(graph.values.size());
  std::int32_t position = model.timeline.optimizer_begin;
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const ir::Value& value = graph.values[i];
    if (value.kind != ir::ValueKind::kParameter) continue;
    if (model.readers[i].empty()) continue;
    const ValueId id(i);
    solver::Node node;
    node.name = value.name;
    std::vector<ParameterChoice>& choices = problem.parameter_choices[i];
    for (const Port& storage : storage_ports(model, id)) {
      SW_ASSIGN_OR_RETURN(const bool allowed,
                          storage_allowed(model, value, storage));
      if (!allowed) continue;
      node.choices.push_back(storage_choice(model, id, storage, position));
      choices.push_back(ParameterChoice{storage});
    }
    ++position;
    if (choices.empty()) {
      return make_error(
          ErrorCode::kInvalidArgument,
          fmt::format("[planner] parameter '{}' of shape [{}] cannot be "
                      "stored as the pins ask. Try: axes of the mesh in mesh "
                      "order, on dims at least as large as they split.",
                      value.name, fmt::join(value.shape, ", ")));
    }
    problem.node_of_parameter[i] =
        static_cast<std::int32_t>(problem.choice.nodes.size());
    problem.choice.nodes.push_back(std::move(node));
    const OpId last = model.readers[i].back().op;
    for (const Reader& reader : model.readers[i]) {
      add_use_node(model, reader, id, reader.op == last, choices, tables,
                   problem);
    }
  }
  add_constant_node(model, problem);
  return true;
}

}  // namespace shardwright::planner
