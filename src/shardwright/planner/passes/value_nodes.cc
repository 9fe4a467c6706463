#include <fmt/format.h>

#include <algorithm>

#include "shardwright/planner/passes/nodes.h"
#include "shardwright/planner/passes/price.h"
#include "shardwright/planner/passes/value_choices.h"
#include "shardwright/planner/passes/value_life.h"

namespace shardwright::planner {
namespace {

using sharding::Port;

// What a choice of a value node keeps alive beyond what the producer owns.
class ValueMemory {
 public:
  explicit ValueMemory(const ValueContext& context) : c_(context) {}

  [[nodiscard]] std::vector<solver::MemoryInterval> of(
      const ValueChoice& choice) const {
    std::vector<solver::MemoryInterval> out;
    const Passage& p = choice.passage;
    if (p.copies) add_copy(choice, out);
    if (p.held > 0) {
      Ranges held;
      held.add(c_.produced.home_slot,
               c_.is_loss ? last_position() : c_.produced.external_held_end);
      add_bytes(out, held.minus(core(c_, false, false)), p.held);
    }
    if (c_.is_loss) {  // kept to the end of the step
      if (p.copies) {
        add_interval(out, c_.converted.last_forward + 1, last_position(),
                     port_bytes(*c_.model, c_.id, choice.layout));
      }
      add_gradients(choice, out);
      return out;
    }
    if (choice.mixed) {
      add_original(choice.produced, choice.produced_need,
                   choice.produced_recompute, choice.produced_saves, out);
    } else if (!p.copies) {
      add_original(choice.layout, choice.need, p.recompute, p.saves, out);
    }
    add_gradients(choice, out);
    return out;
  }

 private:
  [[nodiscard]] std::int32_t last_position() const {
    return c_.model->timeline.num_positions - 1;
  }

  // The value as produced, beyond what its producer owns.
  void add_original(const Port& port, const Need& need, bool recompute,
                    bool saves,
                    std::vector<solver::MemoryInterval>& out) const {
    if (!c_.owns_bytes) return;
    const std::int32_t last =
        std::max(c_.produced.last_forward, c_.produced.home_slot);
    const Ranges all = copy_ranges(c_, c_.produced, need, recompute, last,
                                   c_.produced.last_internal_slot);
    add_bytes(out, all.minus(core(c_, recompute, saves)),
              port_bytes(*c_.model, c_.id, port));
  }

  void add_copy(const ValueChoice& choice,
                std::vector<solver::MemoryInterval>& out) const {
    const bool recompute = choice.passage.recompute;
    add_bytes(
        out,
        copy_ranges(c_, c_.converted, choice.need, recompute,
                    c_.converted.last_forward, c_.converted.last_internal_slot),
        port_bytes(*c_.model, c_.id, choice.layout));
    const std::int64_t temporary = choice.passage.forward_temporary;
    add_interval(out, c_.convert_slot, c_.convert_slot, temporary);
    if (recompute && runs_again(*c_.model, c_.convert_slot)) {
      const std::int32_t at =
          c_.model->timeline
              .recompute[static_cast<std::size_t>(c_.convert_slot)];
      add_interval(out, at, at, temporary);
    }
  }

  // Gradients as readers give them, until they are converted. Where readers
  // mix, also the one as taken, which some give directly. The producer owns the
  // sum over several copies.
  void add_gradients(const ValueChoice& choice,
                     std::vector<solver::MemoryInterval>& out) const {
    if (!c_.has_gradient) return;
    const std::int32_t at = c_.backward(c_.convert_slot);
    const std::int32_t begin = c_.backward(c_.last_reader);
    const std::int64_t given = gradient_bytes(*c_.model, c_.id, choice.layout);
    const std::int64_t taken =
        choice.mixed ? gradient_bytes(*c_.model, c_.id, choice.produced) : 0;
    if (choice.passage.converts_gradient) {
      add_interval(out, begin, at, given);
      add_interval(
          out, at, at,
          choice.passage.backward_temporary + choice.passage.contribution);
      if (!c_.several) add_interval(out, begin, at, taken);
    } else if (!c_.several) {
      add_interval(out, begin, at - 1, given);
    }
    // Every further contribution is a temporary until it is added.
    for (const Reader& reader : c_.readers) {
      const std::int32_t slot = c_.model->timeline.forward_of(reader.op);
      const bool first =
          slot == c_.last_reader &&
          (choice.passage.converts_gradient || slot == c_.last_of_value);
      const auto more =
          static_cast<std::int64_t>(reader.operands.size()) - (first ? 1 : 0);
      add_interval(out, c_.backward(slot), c_.backward(slot),
                   more * std::max(given, taken));
    }
  }

  const ValueContext& c_;
};

solver::Node node_of(const ValueContext& c, const ValueTemplate& shared) {
  const ValueMemory memory(c);
  solver::Node out;
  out.name = c.value->name;
  for (std::size_t k = 0; k < shared.choices.size(); ++k) {
    out.choices.push_back(
        solver::Choice{shared.cost[k], memory.of(shared.choices[k])});
  }
  return out;
}

}  // namespace

Result<bool> add_value_nodes(const Model& model, EdgeTables& tables,
                             PlanningProblem& problem) {
  ValueTemplates templates(problem, tables);
  for (std::size_t i = 0; i < model.timeline.copies.size(); ++i) {
    const ValueContext context =
        context_of(model, static_cast<std::int32_t>(i));
    const ValueTemplate& shared = templates.find(context);
    if (shared.choices.empty()) {
      return make_error(ErrorCode::kInvalidGraph,
                        fmt::format("[planner] value '{}' has no layout that "
                                    "can be reached",
                                    context.value->name));
    }
    const auto node = static_cast<std::int32_t>(problem.choice.nodes.size());
    problem.choice.nodes.push_back(node_of(context, shared));
    problem.node_of_copy.push_back(node);
    problem.copy_choices.push_back(shared.choices);
    const OpId producer = context.value->producer;
    if (producer.valid()) {
      problem.choice.edges.push_back(solver::Edge{
          problem.node_of_op[producer.index()], node, shared.producer_edge});
    }
  }
  return true;
}

}  // namespace shardwright::planner
