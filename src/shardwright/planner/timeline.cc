#include "shardwright/planner/timeline.h"

#include <set>

namespace shardwright::planner {
namespace {

void add_slots(const ir::Graph& graph, Timeline& out) {
  std::vector<bool> converted(graph.values.size(), false);
  out.slot_of_conversion.assign(graph.values.size(), -1);
  const auto push = [&](Slot slot) {
    out.slots.push_back(slot);
    return static_cast<std::int32_t>(out.slots.size() - 1);
  };
  const auto convert = [&](ValueId id, OpId op, std::int32_t region) {
    if (converted[id.index()]) return;
    converted[id.index()] = true;
    out.slot_of_conversion[id.index()] =
        push(Slot{Slot::Kind::kConvert, op, id, region});
  };
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const ir::Op& op = graph.ops[i];
    const std::int32_t region = out.region_of_op[i];
    std::set<std::int32_t> used;
    for (const ValueId id : op.operands) {
      if (graph.value(id).kind != ir::ValueKind::kParameter) {
        convert(id, OpId(i), region);
      } else if (used.insert(id.value).second) {
        out.slot_of_use[{static_cast<std::int32_t>(i), id.value}] =
            push(Slot{Slot::Kind::kUse, OpId(i), id, region});
      }
    }
    out.slot_of_op.push_back(
        push(Slot{Slot::Kind::kOp, OpId(i), ValueId(), region}));
  }
  for (const ValueId id : graph.outputs) convert(id, OpId(), -1);
  convert(graph.loss, OpId(), -1);
}

void add_positions(std::size_t num_regions, std::size_t num_parameters,
                   Timeline& out) {
  const auto n = static_cast<std::int32_t>(out.slots.size());
  out.recompute.assign(out.slots.size(), -1);
  out.backward.assign(out.slots.size(), -1);
  out.region_end.assign(num_regions, -1);
  std::int32_t position = n;
  std::int32_t end = n;
  while (end > 0) {
    const std::int32_t region =
        out.slots[static_cast<std::size_t>(end - 1)].region;
    std::int32_t begin = end - 1;
    while (begin > 0 &&
           out.slots[static_cast<std::size_t>(begin - 1)].region == region) {
      --begin;
    }
    if (region >= 0) {
      for (std::int32_t s = begin; s < end; ++s) {
        out.recompute[static_cast<std::size_t>(s)] = position++;
      }
    }
    for (std::int32_t s = end - 1; s >= begin; --s) {
      out.backward[static_cast<std::size_t>(s)] = position++;
    }
    if (region >= 0) {
      out.region_end[static_cast<std::size_t>(region)] = position - 1;
    }
    end = begin;
  }
  out.optimizer_begin = position;
  // One more than parameters: the last one's temporaries outlive its update.
  out.num_positions = position + static_cast<std::int32_t>(num_parameters) + 1;
}

}  // namespace

Timeline make_timeline(const ir::Graph& graph,
                       const std::vector<RegionRange>& regions) {
  Timeline out;
  out.region_of_op.assign(graph.ops.size(), -1);
  for (std::size_t r = 0; r < regions.size(); ++r) {
    for (std::int32_t i = regions[r].first_op; i < regions[r].last_op; ++i) {
      out.region_of_op[static_cast<std::size_t>(i)] =
          static_cast<std::int32_t>(r);
    }
  }
  std::size_t num_parameters = 0;
  for (const ir::Value& value : graph.values) {
    if (value.kind == ir::ValueKind::kParameter) ++num_parameters;
  }
  add_slots(graph, out);
  add_positions(regions.size(), num_parameters, out);
  return out;
}

}  // namespace shardwright::planner
