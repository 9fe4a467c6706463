#include "shardwright/planner/passes/price.h"

#include "shardwright/cost/collective_memory.h"

namespace shardwright::planner {
namespace {

PriceCache::Entry& entry_of(const Model& model, ValueId value) {
  return model.prices
      ->entries[static_cast<std::size_t>(model.price_class[value.index()])];
}

std::int64_t bytes_at(const Model& model, const ir::Value& value,
                      const sharding::ShardingSpec& spec) {
  std::int64_t count = 1;
  for (const std::int64_t size :
       sharding::local_shape(value.shape, spec, model.mesh, {})) {
    count *= size;
  }
  return count * ir::size_of(value.dtype);
}

std::int64_t temporary(const Model& model, const ir::Value& value,
                       const sharding::ShardingSpec& from,
                       const sharding::Conversion& conversion,
                       const cost::MemoryLayout& layout) {
  return cost::conversion_transient(conversion.steps, from, value.shape,
                                    ir::size_of(value.dtype), layout,
                                    model.mesh);
}

PortConversion find_conversion(const Model& model, const ir::Value& value,
                               const sharding::Port& from,
                               const sharding::Port& to) {
  PortConversion out;
  const std::size_t rank = value.shape.size();
  const std::int64_t element = ir::size_of(value.dtype);
  const auto from_spec = sharding::forward_spec(from, rank);
  const auto to_spec = sharding::forward_spec(to, rank);
  out.forward = model.converter->find(from_spec, to_spec, value.shape, element);
  if (out.forward == nullptr) return out;
  out.forward_cost = model.unit.count(out.forward->time);
  out.forward_temporary =
      temporary(model, value, from_spec, *out.forward, model.layout_of(value));
  if (value.requires_grad) {
    const auto given = sharding::gradient_spec(to, rank);
    const auto taken = sharding::gradient_spec(from, rank);
    out.backward = model.converter->find(given, taken, value.shape, element);
    if (out.backward == nullptr) return out;
    out.backward_cost = model.unit.count(out.backward->time);
    out.backward_temporary = temporary(model, value, given, *out.backward,
                                       model.gradient_layout_of(value));
  }
  out.possible = true;
  return out;
}

}  // namespace

const PortConversion& convert_port(const Model& model, ValueId value,
                                   const sharding::Port& from,
                                   const sharding::Port& to) {
  auto& known = entry_of(model, value).conversions;
  const auto [entry, fresh] = known.try_emplace({from, to});
  if (fresh) {
    entry->second = find_conversion(model, model.graph->value(value), from, to);
  }
  return entry->second;
}

std::int64_t port_bytes(const Model& model, ValueId value,
                        const sharding::Port& port) {
  const auto [entry, fresh] = entry_of(model, value).bytes.try_emplace(port, 0);
  if (fresh) {
    const ir::Value& shape = model.graph->value(value);
    entry->second = bytes_at(model, shape,
                             sharding::forward_spec(port, shape.shape.size()));
  }
  return entry->second;
}

std::int64_t gradient_bytes(const Model& model, ValueId value,
                            const sharding::Port& port) {
  const ir::Value& shape = model.graph->value(value);
  if (!shape.requires_grad) return 0;
  const auto [entry, fresh] =
      entry_of(model, value).gradient_bytes.try_emplace(port, 0);
  if (fresh) {
    entry->second = bytes_at(model, shape,
                             sharding::gradient_spec(port, shape.shape.size()));
  }
  return entry->second;
}

void add_interval(std::vector<solver::MemoryInterval>& out, std::int32_t first,
                  std::int32_t last, std::int64_t bytes) {
  if (bytes <= 0 || last < first) return;
  out.push_back(solver::MemoryInterval{first, last + 1, bytes});
}

bool runs_again(const Model& model, std::int32_t slot) {
  const auto at = static_cast<std::size_t>(slot);
  const std::int32_t region = model.timeline.slots[at].region;
  return region >= 0 && model.recomputable[static_cast<std::size_t>(region)] &&
         model.timeline.recompute[at] >= 0;
}

sharding::Port replicated(const Model& model) {
  return sharding::Port(model.mesh.axes.size());
}

}  // namespace shardwright::planner
