#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "shardwright/planner/passes/nodes.h"
#include "shardwright/planner/passes/price.h"

namespace shardwright::planner {
namespace {

using sharding::Port;

// Everything about one value that its choices share.
struct ValueContext {
  const Model* model = nullptr;
  ValueId id;
  const ir::Value* value = nullptr;
  Life produced;            // of A
  Life converted;           // of B
  bool owns_bytes = false;  // A is a new storage, not a view or a source
  bool is_loss = false;
  bool is_output = false;  // put out as produced
  std::int32_t convert_slot = -1;
  std::int32_t first_reader = -1;  // slots of reading ops, -1: none
  std::int32_t last_reader = -1;
  bool gradient_moves_on = false;  // the producer's backward passes it along
};

bool producer_passes_gradient(const Model& model, const ir::Value& value) {
  if (!value.producer.valid()) return false;
  const OpClass& op_class = model.class_of(value.producer);
  const ir::Op& op = model.graph->op(value.producer);
  for (const PricedStrategy& priced : op_class.priced) {
    bool passes = false;
    for (std::size_t k = 0; k < op.operands.size(); ++k) {
      if (priced.footprint.gradient_alias[k] == value.result_index &&
          model.graph->value(op.operands[k]).kind ==
              ir::ValueKind::kActivation) {
        passes = true;
      }
    }
    if (!passes) return false;
  }
  return true;
}

ValueContext context_of(const Model& model, ValueId id) {
  ValueContext out;
  out.model = &model;
  out.id = id;
  out.value = &model.graph->value(id);
  out.produced = life_of_value(model, id);
  out.converted = life_of_copy(model, id);
  out.convert_slot = model.timeline.slot_of_conversion[id.index()];
  if (out.value->producer.valid()) {
    const OpClass& producer = model.class_of(out.value->producer);
    out.owns_bytes =
        producer
            .result_alias[static_cast<std::size_t>(out.value->result_index)] <
        0;
  }
  out.is_loss = id == model.graph->loss;
  const auto& outputs = model.graph->outputs;
  out.is_output = !out.is_loss && std::find(outputs.begin(), outputs.end(),
                                            id) != outputs.end();
  for (const Reader& reader : model.readers[id.index()]) {
    const std::int32_t slot = model.timeline.forward_of(reader.op);
    if (out.first_reader < 0) out.first_reader = slot;
    out.last_reader = slot;
  }
  if (out.last_reader < 0) {
    out.first_reader = out.last_reader = out.convert_slot;
  }
  out.gradient_moves_on = producer_passes_gradient(model, *out.value);
  return out;
}

std::vector<Port> produced_ports(const ValueContext& c) {
  if (!c.value->producer.valid()) return {replicated(*c.model)};
  std::set<Port> ports;
  const OpClass& producer = c.model->class_of(c.value->producer);
  for (const PricedStrategy& priced : producer.priced) {
    ports.insert(producer.set.strategies[static_cast<std::size_t>(priced.index)]
                     .results[static_cast<std::size_t>(c.value->result_index)]);
  }
  return {ports.begin(), ports.end()};
}

std::set<Port> ports_of_reader(const Model& model, const Reader& reader) {
  std::set<Port> ports;
  const OpClass& op_class = model.class_of(reader.op);
  for (const PricedStrategy& priced : op_class.priced) {
    ports.insert(
        op_class.set.strategies[static_cast<std::size_t>(priced.index)]
            .operands[static_cast<std::size_t>(reader.operands.front())]);
  }
  return ports;
}

// A value read by one view only is converted behind the view, where the same
// bytes move, unless the view cannot take it as it is.
bool view_takes(const ValueContext& c, const Port& produced) {
  const auto& readers = c.model->readers[c.id.index()];
  if (readers.size() != 1 || c.is_loss || c.is_output) return false;
  const Reader& reader = readers.front();
  const OpClass& op_class = c.model->class_of(reader.op);
  const bool view =
      std::find(op_class.result_alias.begin(), op_class.result_alias.end(),
                reader.operands.front()) != op_class.result_alias.end();
  return view && ports_of_reader(*c.model, reader).contains(produced);
}

std::vector<Need> needs_allowed(const Life& life, bool fixed) {
  const std::int32_t top = life.external_held_end >= 0    ? 2
                           : life.external_saved_end >= 0 ? 1
                                                          : 0;
  if (fixed) return {Need{life.internal_end >= 0, top}};
  std::vector<Need> out;
  for (std::int32_t external = 0; external <= top; ++external) {
    if (external == 1 && life.external_saved_end < 0) continue;
    out.push_back(Need{false, external});
    if (life.internal_end >= 0) out.push_back(Need{true, external});
  }
  return out;
}

// Bytes of one copy over its life.
void add_copy(const ValueContext& c, const Life& life, const Need& need,
              bool recompute, std::int32_t last_forward, std::int64_t bytes,
              std::vector<solver::MemoryInterval>& out) {
  std::int32_t kept_end = last_forward;
  if (need.external >= 1)
    kept_end = std::max(kept_end, life.external_saved_end);
  if (need.external >= 2) kept_end = std::max(kept_end, life.external_held_end);
  if (!recompute) {
    if (need.internal) kept_end = std::max(kept_end, life.internal_end);
    add_interval(out, life.home_slot, kept_end, bytes);
    return;
  }
  add_interval(out, life.home_slot, kept_end, bytes);
  const Timeline& timeline = c.model->timeline;
  if (!runs_again(*c.model, life.home_slot)) return;
  const std::int32_t from =
      timeline.recompute[static_cast<std::size_t>(life.home_slot)];
  std::int32_t to = from;
  if (life.last_internal_slot >= 0) {
    to = std::max(to, timeline.recompute[static_cast<std::size_t>(
                          std::max(life.home_slot, life.last_internal_slot))]);
  }
  if (need.internal) to = std::max(to, life.internal_end);
  add_interval(out, from, to, bytes);
}

void add_gradients(const ValueContext& c, const ValueChoice& choice,
                   const PortConversion* conversion,
                   std::vector<solver::MemoryInterval>& out) {
  if (!c.value->requires_grad || !c.value->producer.valid()) return;
  const Timeline& timeline = c.model->timeline;
  const auto backward = [&](std::int32_t slot) {
    return timeline.backward[static_cast<std::size_t>(slot)];
  };
  const std::int64_t taken =
      gradient_bytes(*c.model, *c.value, choice.produced);
  const std::int32_t end =
      backward(c.produced.home_slot) - (c.gradient_moves_on ? 1 : 0);
  const bool copy = conversion != nullptr && !conversion->backward_identity();
  std::int32_t begin = backward(c.last_reader);
  std::int64_t largest = taken;
  if (copy) {
    const std::int64_t given =
        gradient_bytes(*c.model, *c.value, choice.converted);
    largest = std::max(largest, given);
    const std::int32_t at = backward(c.convert_slot);
    add_interval(out, begin, at, given);
    add_interval(out, at, at, conversion->backward_temporary);
    if (choice.reads_produced) {
      add_interval(out, at, at, taken);
    } else {
      begin = at;
    }
  }
  add_interval(out, begin, end, taken);
  // Every further contribution is a temporary until it is added.
  for (const Reader& reader : c.model->readers[c.id.index()]) {
    const std::int32_t slot = timeline.forward_of(reader.op);
    const auto more = static_cast<std::int64_t>(reader.operands.size()) -
                      (slot == c.last_reader ? 1 : 0);
    add_interval(out, backward(slot), backward(slot), more * largest);
  }
}

solver::Choice priced_choice(const ValueContext& c, const ValueChoice& choice,
                             const PortConversion* conversion) {
  solver::Choice out;
  const Model& model = *c.model;
  if (c.owns_bytes) {
    const bool all = choice.reads_produced || choice.shares_storage;
    const std::int32_t last_forward =
        all ? c.produced.last_forward : c.convert_slot;
    Life life = c.produced;
    if (!all) {
      life.last_internal_slot =
          c.converted.home_region == life.home_region ? c.convert_slot : -1;
    }
    add_copy(c, life, choice.produced_need, choice.recompute_produced,
             std::max(last_forward, c.produced.home_slot),
             local_bytes(*c.value, choice.produced, model.mesh), out.intervals);
  }
  if (conversion != nullptr) {
    const bool again =
        choice.recompute_converted && runs_again(model, c.convert_slot);
    out.cost = conversion->forward_time.value * (again ? 2 : 1) +
               conversion->backward_time.value;
    if (!conversion->forward_identity()) {
      add_copy(c, c.converted, choice.converted_need,
               choice.recompute_converted, c.converted.last_forward,
               local_bytes(*c.value, choice.converted, model.mesh),
               out.intervals);
      add_interval(out.intervals, c.convert_slot, c.convert_slot,
                   conversion->forward_temporary);
      if (again) {
        const std::int32_t at =
            model.timeline.recompute[static_cast<std::size_t>(c.convert_slot)];
        add_interval(out.intervals, at, at, conversion->forward_temporary);
      }
    }
  }
  add_gradients(c, choice, conversion, out.intervals);
  return out;
}

class ValueNode {
 public:
  explicit ValueNode(const ValueContext& context) : c_(context) {}

  void add_all() {
    for (const Port& produced : produced_ports(c_)) {
      add_unconverted(produced);
      if (!view_takes(c_, produced)) add_converted(produced);
    }
  }

  solver::Node node;
  std::vector<ValueChoice> choices;

 private:
  [[nodiscard]] std::vector<bool> fates(std::int32_t region) const {
    return region < 0 ? std::vector<bool>{false}
                      : std::vector<bool>{false, true};
  }

  void push(const ValueChoice& choice, const PortConversion* conversion) {
    node.choices.push_back(priced_choice(c_, choice, conversion));
    choices.push_back(choice);
  }

  void add_unconverted(const Port& produced) {
    if (c_.is_loss && produced != replicated(*c_.model)) return;
    ValueChoice choice;
    choice.produced = produced;
    choice.shares_storage = true;
    for (const bool recompute : fates(c_.produced.home_region)) {
      choice.recompute_produced = recompute;
      for (const Need& need : needs_allowed(c_.produced, !c_.owns_bytes)) {
        choice.produced_need = need;
        push(choice, nullptr);
      }
    }
  }

  void add_converted(const Port& produced) {
    for (const Port& converted : wanted_ports()) {
      if (converted == produced) continue;
      const PortConversion conversion =
          convert_port(*c_.model, *c_.value, produced, converted);
      if (!conversion.possible) continue;
      for (const bool reads_produced : {false, true}) {
        if (!reads_produced && c_.is_output) continue;
        if (reads_produced && !mixing_possible(produced)) continue;
        add_fates(produced, converted, reads_produced, conversion);
      }
    }
  }

  [[nodiscard]] std::set<Port> wanted_ports() const {
    if (c_.is_loss) return {replicated(*c_.model)};
    std::set<Port> out;
    for (const Reader& reader : c_.model->readers[c_.id.index()]) {
      out.merge(ports_of_reader(*c_.model, reader));
    }
    return out;
  }

  // Some readers take A and others B: needs two readers (an output counts).
  [[nodiscard]] bool mixing_possible(const Port& produced) const {
    const auto& readers = c_.model->readers[c_.id.index()];
    if (readers.size() + (c_.is_output ? 1 : 0) < 2 || c_.is_loss) return false;
    if (c_.is_output) return true;
    return std::any_of(readers.begin(), readers.end(), [&](const Reader& r) {
      return ports_of_reader(*c_.model, r).contains(produced);
    });
  }

  void add_fates(const Port& produced, const Port& converted,
                 bool reads_produced, const PortConversion& conversion) {
    ValueChoice choice;
    choice.produced = produced;
    choice.converted = converted;
    choice.reads_produced = reads_produced;
    choice.shares_storage = conversion.forward_identity();
    const bool alias = choice.shares_storage;
    const bool same = c_.produced.home_region == c_.converted.home_region;
    for (const bool first : fates(c_.produced.home_region)) {
      for (const bool second :
           same ? std::vector<bool>{first} : fates(c_.converted.home_region)) {
        choice.recompute_produced = first;
        choice.recompute_converted = second;
        add_needs(choice, conversion, alias, second);
      }
    }
  }

  // An identity copy has no buffer: its readers need A. Converting inside a
  // recomputed region reads A there, as any reader would.
  void add_needs(ValueChoice choice, const PortConversion& conversion,
                 bool alias, bool converted_again) {
    const bool crosses = c_.converted.home_region != c_.produced.home_region;
    for (const Need& need : needs_allowed(c_.produced, !c_.owns_bytes)) {
      if (crosses && converted_again && need.external < 2 && c_.owns_bytes) {
        continue;
      }
      if (!alias && !choice.reads_produced && c_.owns_bytes) {
        // Nobody but the conversion and the producer itself reads A.
        const Need least{need.internal && producer_saves(), need.external};
        if (need != least) continue;
        if (need.external > (crosses && converted_again ? 2 : 0)) continue;
      }
      choice.produced_need = need;
      for (const Need& later : needs_allowed(c_.converted, alias)) {
        choice.converted_need = later;
        push(choice, &conversion);
      }
    }
  }

  [[nodiscard]] bool producer_saves() const {
    return c_.value->producer.valid() &&
           c_.produced.internal_end ==
               c_.model->timeline.backward_of(c_.value->producer);
  }

  const ValueContext& c_;
};

}  // namespace

Result<bool> add_value_nodes(const Model& model, PlanningProblem& problem) {
  const ir::Graph& graph = *model.graph;
  problem.value_choices.resize(graph.values.size());
  problem.node_of_value.assign(graph.values.size(), -1);
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const ir::Value& value = graph.values[i];
    if (value.kind == ir::ValueKind::kParameter) continue;
    if (!value.producer.valid() && model.readers[i].empty()) continue;
    const ValueContext context = context_of(model, ValueId(i));
    ValueNode builder(context);
    builder.add_all();
    if (builder.choices.empty()) {
      return make_error(ErrorCode::kInvalidGraph,
                        fmt::format("[planner] value '{}' has no layout that "
                                    "can be reached",
                                    value.name));
    }
    builder.node.name = value.name;
    problem.node_of_value[i] =
        static_cast<std::int32_t>(problem.choice.nodes.size());
    problem.choice.nodes.push_back(std::move(builder.node));
    problem.value_choices[i] = std::move(builder.choices);
  }
  return true;
}

}  // namespace shardwright::planner
