#include "shardwright/planner/lives.h"

#include <algorithm>

namespace shardwright::planner {
namespace {

bool may_save(const OpClass& op_class, std::int32_t operand) {
  return op_class.may_save_operand[static_cast<std::size_t>(operand)];
}

bool may_save_result(const OpClass& op_class, std::int32_t result) {
  return op_class.may_save_result[static_cast<std::size_t>(result)];
}

bool is_output(const Model& model, ValueId value) {
  const auto& outputs = model.graph->outputs;
  return value == model.graph->loss ||
         std::find(outputs.begin(), outputs.end(), value) != outputs.end();
}

void add_backward_need(const Model& model, OpId op, bool saves, Life& life) {
  const std::int32_t region = model.recomputable_region(op);
  const std::int32_t position = model.timeline.backward_of(op);
  if (region == life.home_region) {
    if (saves) life.internal_end = std::max(life.internal_end, position);
    return;
  }
  if (saves) {
    life.external_saved_end = std::max(life.external_saved_end, position);
  }
  if (region >= 0) {
    life.external_held_end =
        std::max({life.external_held_end, position,
                  model.timeline.region_end[static_cast<std::size_t>(region)]});
  }
}

void add_reader(const Model& model, const Reader& reader, Life& life);

// Every reader of `value`, and of the results that share its storage.
void add_readers(const Model& model, ValueId value, Life& life) {
  for (const std::int32_t copy :
       model.timeline.copies_of_value[value.index()]) {
    life.last_forward =
        std::max(life.last_forward,
                 model.timeline.copies[static_cast<std::size_t>(copy)].slot);
  }
  if (is_output(model, value)) {
    life.last_forward =
        static_cast<std::int32_t>(model.timeline.slots.size()) - 1;
  }
  for (const Reader& reader : model.readers[value.index()]) {
    add_reader(model, reader, life);
  }
}

void add_reader(const Model& model, const Reader& reader, Life& life) {
  const OpClass& op_class = model.class_of(reader.op);
  const std::int32_t slot = model.timeline.forward_of(reader.op);
  life.last_forward = std::max(life.last_forward, slot);
  if (model.recomputable_region(reader.op) == life.home_region) {
    life.last_internal_slot = std::max(life.last_internal_slot, slot);
  }
  const ir::Op& op = model.graph->op(reader.op);
  for (const std::int32_t k : reader.operands) {
    add_backward_need(model, reader.op, may_save(op_class, k), life);
    for (std::size_t r = 0; r < op.results.size(); ++r) {
      if (op_class.result_alias[r] != k) continue;
      if (may_save_result(op_class, static_cast<std::int32_t>(r))) {
        add_backward_need(model, reader.op, true, life);
      }
      add_readers(model, op.results[r], life);
    }
  }
}

Need need_of_life(const Life& life) {
  return Need{life.internal_end >= 0, life.external_held_end >= 0    ? 2
                                      : life.external_saved_end >= 0 ? 1
                                                                     : 0};
}

}  // namespace

void Need::merge(const Need& other) {
  internal = internal || other.internal;
  external = std::max(external, other.external);
}

Life life_of_value(const Model& model, ValueId value) {
  Life life;
  const ir::Value& v = model.graph->value(value);
  if (v.producer.valid()) {
    life.home_slot = model.timeline.forward_of(v.producer);
    life.home_region = model.recomputable_region(v.producer);
    life.last_forward = life.home_slot;
    life.last_internal_slot = life.home_slot;
    if (may_save_result(model.class_of(v.producer), v.result_index)) {
      life.internal_end = model.timeline.backward_of(v.producer);
    }
  }
  add_readers(model, value, life);
  return life;
}

Life life_of_copy(const Model& model, std::int32_t copy) {
  const Copy& entry = model.timeline.copies[static_cast<std::size_t>(copy)];
  Life life;
  life.home_slot = entry.slot;
  life.home_region = model.recomputable_region(
      model.timeline.slots[static_cast<std::size_t>(life.home_slot)].op);
  life.last_forward = life.home_slot;
  life.last_internal_slot = life.home_slot;
  for (const Reader& reader : readers_of(model, entry)) {
    add_reader(model, reader, life);
  }
  const bool alone =
      model.timeline.copies_of_value[entry.value.index()].size() == 1;
  if (alone && is_output(model, entry.value)) {
    life.last_forward =
        static_cast<std::int32_t>(model.timeline.slots.size()) - 1;
  }
  return life;
}

std::vector<Reader> readers_of(const Model& model, const Copy& copy) {
  std::vector<Reader> out;
  for (const Reader& reader : model.readers[copy.value.index()]) {
    if (std::binary_search(copy.readers.begin(), copy.readers.end(),
                           reader.op)) {
      out.push_back(reader);
    }
  }
  return out;
}

Life life_of_use(const Model& model, OpId reader, ValueId parameter) {
  Life life;
  life.home_slot =
      model.timeline.slot_of_use.at({reader.value, parameter.value});
  life.home_region = model.recomputable_region(reader);
  life.last_forward = life.home_slot;
  life.last_internal_slot = life.home_slot;
  for (const Reader& entry : model.readers[parameter.index()]) {
    if (entry.op == reader) add_reader(model, entry, life);
  }
  return life;
}

ReaderNeeds::ReaderNeeds(const Model& model, const Reader& reader,
                         std::int32_t home_region)
    : operands_(reader.operands),
      inside_(model.recomputable_region(reader.op) == home_region) {
  const ir::Op& op = model.graph->op(reader.op);
  for (const ValueId result : op.results) {
    Life through;
    through.home_region = home_region;
    add_readers(model, result, through);
    through_result_.push_back(need_of_life(through));
    Life saved;
    saved.home_region = home_region;
    add_backward_need(model, reader.op, true, saved);
    saved_result_.push_back(need_of_life(saved));
  }
}

Need ReaderNeeds::of(const PricedStrategy& priced, bool recompute) const {
  Need need;
  for (const std::int32_t k : operands_) {
    const bool saves =
        priced.footprint.saves_operand[static_cast<std::size_t>(k)];
    if (inside_) {
      need.merge(Need{saves, 0});
    } else {
      need.merge(Need{false, recompute ? 2 : (saves ? 1 : 0)});
    }
    for (std::size_t r = 0; r < through_result_.size(); ++r) {
      if (priced.footprint.result_alias[r] != k) continue;
      if (priced.footprint.saves_result[r]) need.merge(saved_result_[r]);
      need.merge(through_result_[r]);
    }
  }
  return need;
}

}  // namespace shardwright::planner
