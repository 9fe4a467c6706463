#include "shardwright/planner/assemble.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "shardwright/base/check.h"
#include "shardwright/planner/passes/price.h"

namespace shardwright::planner {
namespace {

using sharding::Port;

class Assembler {
 public:
  Assembler(const Model& model, const PlanningProblem& problem,
            const std::vector<std::int32_t>& choice)
      : model_(model),
        graph_(*model.graph),
        problem_(problem),
        choice_(choice) {}

  plan::Plan run() {
    store_parameters();
    for (std::size_t s = 0; s < model_.timeline.slots.size(); ++s) {
      const Slot& slot = model_.timeline.slots[s];
      switch (slot.kind) {
        case Slot::Kind::kUse:
          add_use(slot);
          break;
        case Slot::Kind::kConvert:
          add_conversion(slot);
          break;
        case Slot::Kind::kOp:
          add_op(slot);
          break;
      }
    }
    add_regions();
    add_outputs();
    out_.graph_name = graph_.name;
    out_.graph_hash = ir::graph_hash(graph_);
    out_.batch = graph_.batch;
    out_.mesh = model_.mesh;
    out_.optimizer = model_.options.optimizer;
    out_.memory_limit_bytes = model_.options.memory_limit_bytes;
    out_.warnings = model_.warnings;
    return std::move(out_);
  }

 private:
  template <typename T>
  const T& chosen(const std::vector<T>& choices, std::int32_t node) const {
    return choices[static_cast<std::size_t>(
        choice_[static_cast<std::size_t>(node)])];
  }
  [[nodiscard]] const OpChoice& op_choice(OpId op) const {
    return chosen(problem_.op_choices[op.index()],
                  problem_.node_of_op[op.index()]);
  }
  [[nodiscard]] const PricedStrategy& priced(OpId op) const {
    return model_.class_of(op)
        .priced[static_cast<std::size_t>(op_choice(op).priced)];
  }
  [[nodiscard]] const strategy::Strategy& strategy_of(OpId op) const {
    return model_.class_of(op)
        .set.strategies[static_cast<std::size_t>(priced(op).index)];
  }
  [[nodiscard]] const ValueChoice& copy_choice(std::int32_t copy) const {
    return chosen(problem_.copy_choices[static_cast<std::size_t>(copy)],
                  problem_.node_of_copy[static_cast<std::size_t>(copy)]);
  }
  [[nodiscard]] std::string spec_text(const Port& port,
                                      const ir::Value& value) const {
    return sharding::to_string(sharding::forward_spec(port, value.shape.size()),
                               model_.mesh);
  }
  [[nodiscard]] std::string gradient_text(const Port& port,
                                          const ir::Value& value) const {
    return sharding::to_string(
        sharding::gradient_spec(port, value.shape.size()), model_.mesh);
  }

  void store_parameters() {
    for (std::size_t i = 0; i < graph_.values.size(); ++i) {
      const ir::Value& value = graph_.values[i];
      if (value.kind != ir::ValueKind::kParameter) continue;
      const std::int32_t node = problem_.node_of_parameter[i];
      const Port storage =
          node < 0 ? replicated(model_)
                   : chosen(problem_.parameter_choices[i], node).storage;
      out_.parameters.push_back({value.name, spec_text(storage, value)});
    }
  }

  std::vector<plan::CollectiveStep> steps_of(
      const sharding::Conversion* conversion) const {
    std::vector<plan::CollectiveStep> out;
    if (conversion == nullptr) return out;
    for (const sharding::CollectiveStep& step : conversion->steps) {
      out.push_back(plan::CollectiveStep{
          std::string(mesh::to_string(step.kind)),
          model_.mesh.axes[static_cast<std::size_t>(step.axis)].name, step.dim,
          step.to_dim, sharding::to_string(step.after, model_.mesh),
          step.bytes.value});
    }
    return out;
  }

  // Appends a conversion and returns the buffer it makes; none is needed when
  // nothing happens in either direction.
  std::string convert(ValueId id, const Port& from, const Port& to,
                      std::int32_t region, bool regather) {
    const ir::Value& value = graph_.value(id);
    const PortConversion& conversion = convert_port(model_, id, from, to);
    SW_CHECK(conversion.possible, "a chosen conversion does not exist");
    if (conversion.forward_identity() && conversion.backward_identity()) {
      return value.name;
    }
    plan::Step step;
    step.kind = plan::StepKind::kConvert;
    step.region = region;
    step.value = value.name;
    step.in = {value.name};
    step.out = {fresh_buffer(
        fmt::format("{}@{}", value.name, sharding::to_string(to)))};
    step.shape = value.shape;
    step.dtype = std::string(to_string(value.dtype));
    step.from = spec_text(from, value);
    step.to = spec_text(to, value);
    step.from_grad = gradient_text(from, value);
    step.to_grad = gradient_text(to, value);
    step.in_specs = {step.from};
    step.out_specs = {step.to};
    step.forward = steps_of(conversion.forward);
    step.backward = steps_of(conversion.backward);
    step.regather = regather;
    if (!step.forward.empty()) step.order = model_.layout_of(value).order;
    if (!step.backward.empty()) {
      step.grad_order = model_.gradient_layout_of(value).order;
    }
    out_.steps.push_back(step);
    return out_.steps.back().out.front();
  }

  std::string fresh_buffer(const std::string& name) {
    std::string candidate = name;
    for (int k = 2; !buffers_.insert(candidate).second; ++k) {
      candidate = fmt::format("{}.{}", name, k);
    }
    return candidate;
  }

  void add_use(const Slot& slot) {
    const std::pair<std::int32_t, std::int32_t> key{slot.op.value,
                                                    slot.value.value};
    const UseChoice& use =
        chosen(problem_.use_choices.at(key), problem_.node_of_use.at(key));
    const Port& storage = chosen(problem_.parameter_choices[slot.value.index()],
                                 problem_.node_of_parameter[slot.value.index()])
                              .storage;
    use_buffer_[key] =
        convert(slot.value, storage, use.compute, slot.region, use.regather);
  }

  [[nodiscard]] Port produced_port(ValueId id) const {
    const ir::Value& value = graph_.value(id);
    if (!value.producer.valid()) return replicated(model_);
    return strategy_of(value.producer)
        .results[static_cast<std::size_t>(value.result_index)];
  }

  // Which copy a reader takes: the produced one where that is enough.
  [[nodiscard]] bool takes_produced(ValueId id, const Reader& reader) const {
    const ValueChoice& value =
        copy_choice(model_.timeline.copy_of(id, reader.op));
    if (!value.mixed) return value.layout == produced_port(id);
    const Port& port =
        strategy_of(reader.op)
            .operands[static_cast<std::size_t>(reader.operands.front())];
    if (value.produced != port) return false;
    const ReaderNeeds needs(model_, reader,
                            life_of_value(model_, id).home_region);
    const Need need =
        needs.of(priced(reader.op), op_choice(reader.op).recompute);
    return need.internal <= value.produced_need.internal &&
           need.external <= value.produced_need.external;
  }

  void add_conversion(const Slot& slot) {
    const ValueId id = slot.value;
    const Port produced = produced_port(id);
    const Port& layout = copy_choice(slot.copy).layout;
    if (layout == produced) return;
    const std::vector<Reader> readers = readers_of(
        model_, model_.timeline.copies[static_cast<std::size_t>(slot.copy)]);
    const bool used =
        id == graph_.loss ||
        std::any_of(readers.begin(), readers.end(), [&](const Reader& reader) {
          return !takes_produced(id, reader);
        });
    if (!used) return;
    copy_buffer_[slot.copy] = convert(id, produced, layout, slot.region, false);
  }

  [[nodiscard]] std::string buffer_for(OpId op, std::int32_t operand) const {
    const ValueId id =
        graph_.op(op).operands[static_cast<std::size_t>(operand)];
    if (graph_.value(id).kind == ir::ValueKind::kParameter) {
      return use_buffer_.at({op.value, id.value});
    }
    const std::vector<Reader>& readers = model_.readers[id.index()];
    const auto reader =
        std::find_if(readers.begin(), readers.end(),
                     [&](const Reader& r) { return r.op == op; });
    if (takes_produced(id, *reader)) return graph_.value(id).name;
    return copy_buffer_.at(model_.timeline.copy_of(id, op));
  }

  void add_op(const Slot& slot) {
    const ir::Op& op = graph_.op(slot.op);
    const strategy::Strategy& strategy = strategy_of(slot.op);
    plan::Step step;
    step.kind = plan::StepKind::kOp;
    step.region = slot.region;
    step.op = op.key;
    for (std::size_t k = 0; k < op.operands.size(); ++k) {
      step.in.push_back(buffer_for(slot.op, static_cast<std::int32_t>(k)));
      step.in_specs.push_back(
          spec_text(strategy.operands[k], graph_.value(op.operands[k])));
    }
    for (std::size_t r = 0; r < op.results.size(); ++r) {
      const ir::Value& result = graph_.value(op.results[r]);
      step.out.push_back(fresh_buffer(result.name));
      step.out_specs.push_back(spec_text(strategy.results[r], result));
    }
    step.strategy = strategy.text;
    step.variant = strategy.variant;
    step.variant_args = strategy.variant_args;
    step.local_attrs = strategy.local_attrs;
    step.local_factors = strategy.local_factors;
    for (const strategy::InternalCollective& item : strategy.collectives) {
      (item.backward ? step.collectives_backward : step.collectives_forward)
          .push_back(
              {std::string(mesh::to_string(item.kind)),
               model_.mesh.axes[static_cast<std::size_t>(item.axis)].name,
               item.bytes.value});
    }
    out_.steps.push_back(std::move(step));
  }

  void add_regions() {
    for (std::size_t r = 0; r < model_.regions.size(); ++r) {
      const OpId first(model_.regions[r].first_op);
      out_.regions.push_back({static_cast<std::int32_t>(r),
                              model_.regions[r].name,
                              op_choice(first).recompute});
    }
  }

  void add_outputs() {
    const auto buffer = [&](ValueId id) {
      const auto& copies = model_.timeline.copies_of_value[id.index()];
      const auto copy =
          copies.empty() ? copy_buffer_.end() : copy_buffer_.find(copies[0]);
      return id == graph_.loss && copy != copy_buffer_.end()
                 ? copy->second
                 : graph_.value(id).name;
    };
    for (const ValueId id : graph_.outputs) {
      const ir::Value& value = graph_.value(id);
      Port port = replicated(model_);
      if (value.kind == ir::ValueKind::kParameter) {
        const std::int32_t node = problem_.node_of_parameter[id.index()];
        if (node >= 0) {
          port = chosen(problem_.parameter_choices[id.index()], node).storage;
        }
      } else if (id != graph_.loss &&
                 !model_.timeline.copies_of_value[id.index()].empty()) {
        port = produced_port(id);
      }
      out_.outputs.push_back({value.name, buffer(id), spec_text(port, value)});
    }
    out_.loss = buffer(graph_.loss);
  }

  const Model& model_;
  const ir::Graph& graph_;
  const PlanningProblem& problem_;
  const std::vector<std::int32_t>& choice_;
  std::map<std::pair<std::int32_t, std::int32_t>, std::string> use_buffer_;
  std::map<std::int32_t, std::string> copy_buffer_;
  std::set<std::string> buffers_;
  plan::Plan out_;
};

}  // namespace

plan::Plan assemble(const Model& model, const PlanningProblem& problem,
                    const std::vector<std::int32_t>& choice) {
  return Assembler(model, problem, choice).run();
}

}  // namespace shardwright::planner
