#include "shardwright/planner/timeline.h"

#include <algorithm>
#include <set>

#include "shardwright/base/check.h"

namespace shardwright::planner {
namespace {

// More regions than this and each gets a copy of its own.
constexpr std::size_t kMostRegionsOfACopy = 2;

// Readers of every value, in order, each op once.
std::vector<std::vector<OpId>> readers_of(const ir::Graph& graph) {
  std::vector<std::vector<OpId>> out(graph.values.size());
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    for (const ValueId id : graph.ops[i].operands) {
      auto& list = out[id.index()];
      if (list.empty() || list.back() != OpId(i)) list.push_back(OpId(i));
    }
  }
  return out;
}

void add_copies(const ir::Graph& graph, Timeline& out) {
  out.copies_of_value.resize(graph.values.size());
  const auto readers = readers_of(graph);
  const auto region_of = [&](OpId op) { return out.region_of_op[op.index()]; };
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    if (graph.values[v].kind == ir::ValueKind::kParameter) continue;
    std::set<std::int32_t> regions;
    for (const OpId op : readers[v]) regions.insert(region_of(op));
    regions.erase(-1);
    const bool apart = regions.size() > kMostRegionsOfACopy;
    for (const OpId op : readers[v]) {
      auto& list = out.copies_of_value[v];
      const bool joins =
          !list.empty() &&
          (!apart || region_of(out.copies[static_cast<std::size_t>(list.back())]
                                   .readers.back()) == region_of(op));
      if (!joins) {
        list.push_back(static_cast<std::int32_t>(out.copies.size()));
        out.copies.push_back(Copy{ValueId(v), -1, {}});
      }
      out.copies[static_cast<std::size_t>(list.back())].readers.push_back(op);
    }
  }
}

void add_slots(const ir::Graph& graph, Timeline& out) {
  const auto push = [&](Slot slot) {
    out.slots.push_back(slot);
    return static_cast<std::int32_t>(out.slots.size() - 1);
  };
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const OpId op(i);
    const std::int32_t region = out.region_of_op[i];
    std::set<std::int32_t> used;
    for (const ValueId id : graph.ops[i].operands) {
      if (graph.value(id).kind != ir::ValueKind::kParameter) {
        const std::int32_t copy = out.copy_of(id, op);
        Copy& entry = out.copies[static_cast<std::size_t>(copy)];
        if (entry.slot >= 0) continue;
        entry.slot = push(Slot{Slot::Kind::kConvert, op, id, region, copy});
      } else if (used.insert(id.value).second) {
        out.slot_of_use[{op.value, id.value}] =
            push(Slot{Slot::Kind::kUse, op, id, region, -1});
      }
    }
    out.slot_of_op.push_back(
        push(Slot{Slot::Kind::kOp, op, ValueId(), region, -1}));
  }
  const auto put_out = [&](ValueId id) {
    if (!out.copies_of_value[id.index()].empty()) return;
    if (graph.value(id).kind == ir::ValueKind::kParameter) return;
    const auto copy = static_cast<std::int32_t>(out.copies.size());
    out.copies_of_value[id.index()].push_back(copy);
    out.copies.push_back(Copy{id, -1, {}});
    out.copies.back().slot =
        push(Slot{Slot::Kind::kConvert, OpId(), id, -1, copy});
  };
  for (const ValueId id : graph.outputs) put_out(id);
  put_out(graph.loss);
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
    const std::int32_t last_saver =
        region < 0 ? -1 : out.last_saver[static_cast<std::size_t>(region)];
    for (std::int32_t s = end - 1; s >= begin; --s) {
      if (s == last_saver) {
        for (std::int32_t r = begin; r <= s; ++r) {
          out.recompute[static_cast<std::size_t>(r)] = position++;
        }
      }
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

std::int32_t Timeline::copy_of(ValueId value, OpId op) const {
  const std::vector<std::int32_t>& list = copies_of_value[value.index()];
  const auto found =
      std::find_if(list.begin(), list.end(), [&](std::int32_t copy) {
        const auto& ops = copies[static_cast<std::size_t>(copy)].readers;
        return std::binary_search(ops.begin(), ops.end(), op);
      });
  SW_CHECK(found != list.end(), "a reader without a copy");
  return *found;
}

std::int32_t Timeline::recomputed_by(std::int32_t slot) const {
  const std::int32_t region = slots[static_cast<std::size_t>(slot)].region;
  const std::int32_t last = last_saver[static_cast<std::size_t>(region)];
  return recompute[static_cast<std::size_t>(std::min(slot, last))];
}

std::int32_t Timeline::recompute_end(std::int32_t slot) const {
  const std::int32_t region = slots[static_cast<std::size_t>(slot)].region;
  const std::int32_t last = last_saver[static_cast<std::size_t>(region)];
  return recompute[static_cast<std::size_t>(last)];
}

Timeline make_timeline(const ir::Graph& graph,
                       const std::vector<RegionRange>& regions,
                       const std::vector<bool>& saves) {
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
  add_copies(graph, out);
  add_slots(graph, out);
  out.last_saver.assign(regions.size(), -1);
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    if (out.region_of_op[i] < 0 || !saves[i]) continue;
    out.last_saver[static_cast<std::size_t>(out.region_of_op[i])] =
        out.slot_of_op[i];
  }
  add_positions(regions.size(), num_parameters, out);
  return out;
}

}  // namespace shardwright::planner
