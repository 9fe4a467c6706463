#include "shardwright/planner/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "shardwright/cost/kernel_time.h"
#include "shardwright/mesh/device_mesh.h"
#include "shardwright/planner/passes/price.h"
#include "shardwright/planner/pins.h"
#include "shardwright/planner/state.h"
#include "shardwright/rules/rule.h"

namespace shardwright::planner {
namespace {

using sharding::Port;

// A value of less than one part in so many of all values' bytes is small.
constexpr std::int64_t kSmallShare = 256;
// Totals the solver sums up without a worry.
constexpr double kMostUnits = 1e16;
// Conversions forward, backward and again, each of a few steps.
constexpr double kCollectivesOfAValue = 8;

std::string class_key(const ir::Graph& graph, const ir::Op& op) {
  std::string key = fmt::format("{}{}|{}", op.name, op.attrs.dump(), op.record);
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    const ir::Value& value = graph.value(op.operands[i]);
    // Equal operands (x * x) must be seen as one reader.
    std::size_t same = i;
    for (std::size_t j = 0; j < i; ++j) {
      if (op.operands[j] == op.operands[i]) same = std::min(same, j);
    }
    key += fmt::format("|{}:{}[{}]{}{}", op.operand_args[i],
                       to_string(value.dtype), fmt::join(value.shape, ","),
                       value.requires_grad ? "g" : "", same);
  }
  for (const ValueId id : op.results) {
    const ir::Value& value = graph.value(id);
    key += fmt::format(">{}[{}]{}", to_string(value.dtype),
                       fmt::join(value.shape, ","),
                       value.requires_grad ? "g" : "");
  }
  return key;
}

std::string compute_dtype(const ir::Graph& graph, const ir::Op& op) {
  for (const ValueId id : op.results) {
    if (ir::is_floating(graph.value(id).dtype)) {
      return std::string(to_string(graph.value(id).dtype));
    }
  }
  return "float32";
}

// An op that reads a tensor twice must take it in one port.
bool ports_agree(const ir::Op& op, const strategy::Strategy& strategy) {
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (op.operands[i] == op.operands[j] &&
          strategy.operands[i] != strategy.operands[j]) {
        return false;
      }
    }
  }
  return true;
}

void merge(const std::vector<bool>& from, std::vector<bool>& into) {
  for (std::size_t i = 0; i < into.size(); ++i) into[i] = into[i] || from[i];
}

// Split operands, a partial sum as result.
bool contracts(const strategy::Strategy& strategy, std::size_t num_axes) {
  const auto has = [](const std::vector<Port>& ports, std::size_t axis,
                      sharding::Symbol::Kind kind) {
    return std::any_of(ports.begin(), ports.end(), [&](const Port& port) {
      return port[axis].kind == kind;
    });
  };
  for (std::size_t axis = 0; axis < num_axes; ++axis) {
    if (has(strategy.results, axis, sharding::Symbol::kPartial) &&
        has(strategy.operands, axis, sharding::Symbol::kShard)) {
      return true;
    }
  }
  return false;
}

Result<OpClass> make_class(const ir::Graph& graph, const ir::Op& op,
                           const mesh::DeviceMesh& mesh,
                           std::vector<std::string>& warnings) {
  OpClass out;
  if (op.record < 0 ||
      static_cast<std::size_t>(op.record) >= graph.records.size()) {
    return make_error(ErrorCode::kInvalidGraph,
                      fmt::format("[planner] op '{}' has no profile record. "
                                  "Try: profile the graph before planning.",
                                  op.key));
  }
  SW_ASSIGN_OR_RETURN(
      cost::Record record,
      cost::record_from_json(graph.records[static_cast<std::size_t>(op.record)],
                             fmt::format("record of op '{}'", op.key)));
  out.record = std::make_shared<const cost::Record>(std::move(record));
  const std::optional<rules::Rule> rule = rules::rule_of(graph, op);
  out.set = strategy::enumerate_strategies(graph, op, rule, mesh);
  std::vector<std::int64_t> factor_sizes;
  if (rule) {
    for (const rules::Factor& factor : rule->factors) {
      factor_sizes.push_back(factor.size);
    }
  }
  SW_RETURN_IF_ERROR(
      cost::check_fits(*out.record, op.operands.size(), op.results.size(),
                       factor_sizes, fmt::format("record of op '{}'", op.key)));
  SW_RETURN_IF_ERROR(cost::check_ranks(
      *out.record, graph, op, fmt::format("record of op '{}'", op.key)));
  if (!out.set.has_rule) {
    warnings.push_back(
        fmt::format("no sharding rule for {} (op '{}'): it runs replicated",
                    op.name, op.key));
  }
  const std::string dtype = compute_dtype(graph, op);
  for (std::size_t s = 0; s < out.set.strategies.size(); ++s) {
    const strategy::Strategy& choice = out.set.strategies[s];
    const cost::Record* whole = out.record->of_variant(choice.variant);
    if (whole == nullptr || !ports_agree(op, choice)) continue;
    const cost::Record* local = &whole->at(choice.local_factors);
    const bool split =
        std::any_of(choice.factor_of_axis.begin(), choice.factor_of_axis.end(),
                    [](std::int32_t f) { return f >= 0; });
    if (split && !whole->scalable) continue;
    PricedStrategy priced;
    priced.index = static_cast<std::int32_t>(s);
    // Who shares a storage is one for all strategies here: a small shard that
    // is a view where others are copies counts as a copy. `sim` knows better,
    // and its peak is what a plan must keep.
    const bool shares_alike = local->results == whole->results;
    priced.footprint =
        cost::footprint_of(shares_alike ? *local : *whole, choice.local_factors,
                           op.operands.size(), op.results.size());
    Seconds forward = cost::kernels_time(
        local->kernels_forward, choice.local_factors, mesh.device, dtype);
    Seconds backward = cost::kernels_time(
        local->kernels_backward, choice.local_factors, mesh.device, dtype);
    for (const strategy::InternalCollective& item : choice.collectives) {
      const Seconds time = mesh::collective_time(
          item.kind, mesh.axes[static_cast<std::size_t>(item.axis)],
          item.bytes);
      (item.backward ? backward : forward) += time;
    }
    priced.forward = forward;
    priced.backward = backward;
    out.priced.push_back(std::move(priced));
  }
  if (out.priced.empty()) {
    return make_error(ErrorCode::kInvalidGraph,
                      fmt::format("[planner] op '{}' ({}) has no strategy that "
                                  "can be priced",
                                  op.key, op.name));
  }
  out.result_alias = out.priced.front().footprint.result_alias;
  out.may_save_operand.assign(op.operands.size(), false);
  out.may_save_result.assign(op.results.size(), false);
  for (const PricedStrategy& priced : out.priced) {
    out.saves_anything = out.saves_anything || priced.footprint.saves_anything;
    merge(priced.footprint.saves_operand, out.may_save_operand);
    merge(priced.footprint.saves_result, out.may_save_result);
    out.contracts =
        out.contracts ||
        contracts(out.set.strategies[static_cast<std::size_t>(priced.index)],
                  mesh.axes.size());
  }
  for (std::size_t k = 0; k < op.operands.size(); ++k) {
    std::set<Port> ports;
    for (const PricedStrategy& priced : out.priced) {
      ports.insert(out.set.strategies[static_cast<std::size_t>(priced.index)]
                       .operands[k]);
    }
    out.operand_ports.emplace_back(ports.begin(), ports.end());
  }
  return out;
}

Result<bool> make_classes(const ir::Graph& graph, Model& model) {
  std::map<std::string, std::int32_t> known;
  std::set<std::string> warned;
  for (const ir::Op& op : graph.ops) {
    const auto [entry, fresh] = known.emplace(
        class_key(graph, op), static_cast<std::int32_t>(known.size()));
    if (fresh) {
      std::vector<std::string> warnings;
      SW_ASSIGN_OR_RETURN(OpClass made,
                          make_class(graph, op, model.mesh, warnings));
      model.classes.push_back(std::move(made));
      for (std::string& text : warnings) {
        if (warned.insert(op.name).second) {
          model.warnings.push_back(std::move(text));
        }
      }
    }
    model.class_of_op.push_back(entry->second);
  }
  return true;
}

// Picoseconds, unless the dearest step one could ask for takes too many of
// them.
void choose_unit(const ir::Graph& graph, Model& model) {
  Seconds longest(0);
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    Seconds op(0);
    for (const PricedStrategy& priced : model.class_of(OpId(i)).priced) {
      op = std::max(op, priced.forward + priced.forward + priced.backward);
    }
    longest += op;
  }
  for (const ir::Value& value : graph.values) {
    for (const mesh::MeshAxis& axis : model.mesh.axes) {
      longest += kCollectivesOfAValue *
                 mesh::collective_time(mesh::CollectiveKind::kAllReduce, axis,
                                       Bytes(value.bytes()));
    }
  }
  while (longest.value * 1e12 >
         kMostUnits * static_cast<double>(model.unit.picoseconds)) {
    model.unit.picoseconds *= 1000;
  }
  for (OpClass& op_class : model.classes) {
    for (PricedStrategy& priced : op_class.priced) {
      priced.forward_cost = model.unit.count(priced.forward);
      priced.backward_cost = model.unit.count(priced.backward);
    }
  }
}

void find_readers(const ir::Graph& graph, Model& model) {
  model.readers.resize(graph.values.size());
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const ir::Op& op = graph.ops[i];
    for (std::size_t k = 0; k < op.operands.size(); ++k) {
      auto& list = model.readers[op.operands[k].index()];
      if (list.empty() || list.back().op != OpId(i)) {
        list.push_back(Reader{OpId(i), {}});
      }
      list.back().operands.push_back(static_cast<std::int32_t>(k));
    }
  }
}

void find_price_classes(const ir::Graph& graph, Model& model) {
  std::map<std::tuple<std::vector<std::int64_t>, ir::DType, bool,
                      cost::MemoryLayout, cost::MemoryLayout>,
           std::int32_t>
      known;
  for (const ir::Value& value : graph.values) {
    const auto [entry, fresh] = known.try_emplace(
        {value.shape, value.dtype, value.requires_grad, model.layout_of(value),
         model.gradient_layout_of(value)},
        static_cast<std::int32_t>(known.size()));
    model.price_class.push_back(entry->second);
  }
  model.prices = std::make_shared<PriceCache>(known.size());
}

// A pin on the producer's placement has the last word.
void find_small_values(const ir::Graph& graph, Model& model) {
  std::int64_t total = 0;
  for (const ir::Value& value : graph.values) total += value.bytes();
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const ir::Value& value = graph.values[i];
    const bool small = value.bytes() <= total / kSmallShare;
    model.is_small.push_back(small);
    model.stays_whole.push_back(small && !value.requires_grad &&
                                value.producer.valid() &&
                                model.timeline.copies_of_value[i].size() > 1 &&
                                !placement_pinned(model, value.producer));
  }
}

// A second run must compute what the first did. A region that saves nothing has
// nothing to recompute.
void find_recomputable(Model& model) {
  for (std::size_t r = 0; r < model.regions.size(); ++r) {
    bool allowed = model.options.recompute && model.timeline.last_saver[r] >= 0;
    for (std::int32_t i = model.regions[r].first_op;
         i < model.regions[r].last_op; ++i) {
      if (model.state.seen_by[static_cast<std::size_t>(i)]) allowed = false;
    }
    model.recomputable.push_back(allowed);
  }
}

std::vector<bool> savers(const ir::Graph& graph, const Model& model) {
  std::vector<bool> out;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    out.push_back(model.class_of(OpId(i)).saves_anything);
  }
  return out;
}

}  // namespace

cost::MemoryLayout Model::layout_of(const ir::Value& value) const {
  if (!value.producer.valid()) return {};
  return class_of(value.producer)
      .record->result_layouts[static_cast<std::size_t>(value.result_index)];
}

cost::MemoryLayout Model::gradient_layout_of(const ir::Value& value) const {
  if (!value.producer.valid()) return {};
  return class_of(value.producer)
      .record->gradient_layouts[static_cast<std::size_t>(value.result_index)];
}

std::int32_t Model::recomputable_region(OpId op) const {
  if (!op.valid()) return -1;
  const std::int32_t region = timeline.region_of_op[op.index()];
  if (region < 0 || !recomputable[static_cast<std::size_t>(region)]) return -1;
  return region;
}

Result<Model> make_model(const ir::Graph& graph, const mesh::DeviceMesh& mesh,
                         const PlanOptions& options) {
  Model model;
  model.graph = &graph;
  model.mesh = mesh;
  model.options = options;
  SW_ASSIGN_OR_RETURN(model.optimizer, cost::optimizer_of(options.optimizer));
  SW_RETURN_IF_ERROR(make_classes(graph, model));
  choose_unit(graph, model);
  find_readers(graph, model);
  find_price_classes(graph, model);
  model.regions = find_regions(graph);
  model.timeline = make_timeline(graph, model.regions, savers(graph, model));
  model.state = find_changed_state(model);
  find_recomputable(model);
  find_small_values(graph, model);
  model.converter = std::make_shared<sharding::Converter>(mesh);
  return model;
}

}  // namespace shardwright::planner
