#include "shardwright/planner/passes/value_life.h"

#include <algorithm>

#include "shardwright/planner/passes/price.h"

namespace shardwright::planner {
namespace {

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

bool is_new_storage(const Model& model, const ir::Value& value) {
  if (!value.producer.valid()) return false;
  return model.class_of(value.producer)
             .result_alias[static_cast<std::size_t>(value.result_index)] < 0;
}

}  // namespace

ValueContext context_of_result(const Model& model, ValueId id) {
  ValueContext out;
  const auto& copies = model.timeline.copies_of_value[id.index()];
  if (!copies.empty()) return context_of(model, copies.front());
  out.model = &model;
  out.id = id;
  out.value = &model.graph->value(id);
  out.produced = life_of_value(model, id);
  out.owns_bytes = is_new_storage(model, *out.value);
  return out;
}

ValueContext context_of(const Model& model, std::int32_t copy) {
  ValueContext out;
  const Copy& entry = model.timeline.copies[static_cast<std::size_t>(copy)];
  out.model = &model;
  out.id = entry.value;
  out.value = &model.graph->value(out.id);
  out.readers = readers_of(model, entry);
  out.several = model.timeline.copies_of_value[out.id.index()].size() > 1;
  out.produced = life_of_value(model, out.id);
  out.converted = life_of_copy(model, copy);
  out.convert_slot = entry.slot;
  out.owns_bytes = is_new_storage(model, *out.value);
  out.is_loss = out.id == model.graph->loss;
  const auto& outputs = model.graph->outputs;
  out.is_output =
      !out.is_loss && !out.several &&
      std::find(outputs.begin(), outputs.end(), out.id) != outputs.end();
  out.has_gradient = out.value->requires_grad && out.value->producer.valid();
  out.last_reader = out.readers.empty()
                        ? out.convert_slot
                        : model.timeline.forward_of(out.readers.back().op);
  const auto& all = model.readers[out.id.index()];
  out.last_of_value =
      all.empty() ? out.convert_slot : model.timeline.forward_of(all.back().op);
  out.gradient_moves_on = producer_passes_gradient(model, *out.value);
  return out;
}

Ranges core(const ValueContext& c, bool recompute, bool saves) {
  Ranges out;
  if (!c.owns_bytes) return out;
  if (c.several) {
    return copy_ranges(c, c.produced, needs_allowed(c.produced, true).front(),
                       recompute, c.produced.last_forward,
                       c.produced.last_internal_slot);
  }
  const std::int32_t home = c.produced.home_slot;
  const std::int32_t last = std::max(home, c.convert_slot);
  const std::int32_t backward = c.backward(home);
  if (!recompute) {
    out.add(home, saves ? backward : last);
    return out;
  }
  out.add(home, last);
  if (!runs_again(*c.model, home)) return out;
  const Timeline& timeline = c.model->timeline;
  const std::int32_t from = timeline.recompute[static_cast<std::size_t>(home)];
  std::int32_t to = from;
  if (c.convert_slot >= 0) {
    to = c.crosses() ? timeline.recompute_end(home)
                     : timeline.recomputed_by(c.convert_slot);
  }
  if (saves) to = std::max(to, backward);
  out.add(from, to);
  return out;
}

Ranges gradient_core(const ValueContext& c) {
  Ranges out;
  if (!c.has_gradient) return out;
  out.add(c.backward(c.several ? c.last_of_value : c.convert_slot),
          c.backward(c.produced.home_slot) - (c.gradient_moves_on ? 1 : 0));
  return out;
}

Ranges copy_ranges(const ValueContext& c, const Life& life, const Need& need,
                   bool recompute, std::int32_t last_forward,
                   std::int32_t last_internal) {
  Ranges out;
  std::int32_t kept_end = last_forward;
  if (need.external >= 1) {
    kept_end = std::max(kept_end, life.external_saved_end);
  }
  if (need.external >= 2) kept_end = std::max(kept_end, life.external_held_end);
  if (!recompute && need.internal) {
    kept_end = std::max(kept_end, life.internal_end);
  }
  out.add(life.home_slot, kept_end);
  if (!recompute || !runs_again(*c.model, life.home_slot)) return out;
  const Timeline& timeline = c.model->timeline;
  const std::int32_t from =
      timeline.recompute[static_cast<std::size_t>(life.home_slot)];
  std::int32_t to = from;
  if (last_internal >= 0) {
    to = timeline.recomputed_by(std::max(life.home_slot, last_internal));
  }
  const bool leaves =
      last_forward >= 0 &&
      timeline.slots[static_cast<std::size_t>(last_forward)].region !=
          life.home_region;
  if (leaves) to = std::max(to, timeline.recompute_end(life.home_slot));
  if (need.internal) to = std::max(to, life.internal_end);
  out.add(from, to);
  return out;
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

}  // namespace shardwright::planner
