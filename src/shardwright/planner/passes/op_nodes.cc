#include <fmt/format.h>

#include <algorithm>

#include "shardwright/planner/passes/nodes.h"
#include "shardwright/planner/passes/price.h"
#include "shardwright/planner/passes/value_life.h"
#include "shardwright/planner/pins.h"

namespace shardwright::planner {
namespace {

// The core of every result and of its gradient (value_life.h).
void add_results(const std::vector<ValueContext>& results,
                 const strategy::Strategy& strategy,
                 const cost::Footprint& footprint, bool recompute,
                 std::vector<solver::MemoryInterval>& out) {
  for (std::size_t r = 0; r < results.size(); ++r) {
    const ValueContext& c = results[r];
    const sharding::Port& port = strategy.results[r];
    if (c.owns_bytes) {
      add_bytes(out, core(c, recompute, footprint.saves_result[r]),
                std::max(footprint.result_bytes[r],
                         port_bytes(*c.model, c.id, port)));
    }
    if (c.has_gradient) {
      add_bytes(out, gradient_core(c), gradient_bytes(*c.model, c.id, port));
    }
  }
}

// Small values that many regions read (masks, position tables) stay whole: each
// region then takes its part without communication, and does not depend on what
// the others take. Buffers that the step changes stay as they are stored: a
// part of one would not see the change.
bool keeps_whole(const Model& model, OpId op,
                 const strategy::Strategy& strategy) {
  const ir::Op& entry = model.graph->op(op);
  for (std::size_t k = 0; k < entry.operands.size(); ++k) {
    if (model.state.holds[entry.operands[k].index()] &&
        strategy.operands[k] != replicated(model)) {
      return false;
    }
  }
  for (std::size_t r = 0; r < entry.results.size(); ++r) {
    const std::size_t value = entry.results[r].index();
    if ((model.stays_whole[value] || model.state.holds[value]) &&
        strategy.results[r] != replicated(model)) {
      return false;
    }
  }
  return true;
}

// Run again, an op that changes buffers works on copies of them (a variant has
// a way of its own, without copies).
void add_copied_state(const Model& model, OpId op,
                      const strategy::Strategy& strategy,
                      const cost::Footprint& footprint,
                      std::vector<solver::MemoryInterval>& out) {
  const ir::Op& entry = model.graph->op(op);
  if (!entry.effect || !strategy.variant.empty()) return;
  const Timeline& timeline = model.timeline;
  const std::int32_t again =
      timeline.recompute[static_cast<std::size_t>(timeline.forward_of(op))];
  for (std::size_t k = 0; k < entry.operands.size(); ++k) {
    const ValueId id = entry.operands[k];
    if (model.graph->value(id).kind != ir::ValueKind::kBuffer) continue;
    const bool handed_on =
        std::find(footprint.result_alias.begin(), footprint.result_alias.end(),
                  static_cast<std::int32_t>(k)) != footprint.result_alias.end();
    const bool stays = footprint.saves_operand[k] || handed_on;
    add_interval(out, again, stays ? timeline.backward_of(op) : again,
                 port_bytes(model, id, strategy.operands[k]));
  }
}

solver::Choice choice_of(const Model& model, OpId op,
                         const strategy::Strategy& strategy,
                         const PricedStrategy& priced, bool recompute) {
  const Timeline& timeline = model.timeline;
  const std::int32_t slot = timeline.forward_of(op);
  const std::int32_t backward = timeline.backward_of(op);
  const cost::Footprint& footprint = priced.footprint;
  solver::Choice out;
  out.cost = priced.forward_cost + priced.backward_cost;
  add_interval(out.intervals, slot, slot, footprint.forward_temporary);
  add_interval(out.intervals, backward, backward, footprint.backward_temporary);
  if (!recompute) {
    add_interval(out.intervals, slot, backward, footprint.internal_bytes);
    return out;
  }
  const std::int32_t again = timeline.recompute[static_cast<std::size_t>(slot)];
  add_interval(out.intervals, slot, slot, footprint.internal_bytes);
  if (runs_again(model, slot)) {
    out.cost += priced.forward_cost;
    add_interval(out.intervals, again, again, footprint.forward_temporary);
    add_interval(out.intervals, again, backward, footprint.internal_bytes);
    add_copied_state(model, op, strategy, footprint, out.intervals);
  }
  return out;
}

}  // namespace

Result<bool> add_op_nodes(const Model& model, PlanningProblem& problem) {
  const ir::Graph& graph = *model.graph;
  problem.op_choices.resize(graph.ops.size());
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const OpId op(i);
    const OpClass& op_class = model.class_of(op);
    const std::int32_t region = model.recomputable_region(op);
    SW_ASSIGN_OR_RETURN(const std::vector<bool> fates,
                        allowed_fates(model, region));
    solver::Node node;
    node.name = graph.ops[i].key;
    std::vector<ValueContext> results;
    for (const ValueId id : graph.ops[i].results) {
      results.push_back(context_of_result(model, id));
    }
    for (std::size_t p = 0; p < op_class.priced.size(); ++p) {
      const PricedStrategy& priced = op_class.priced[p];
      const strategy::Strategy& choice =
          op_class.set.strategies[static_cast<std::size_t>(priced.index)];
      SW_ASSIGN_OR_RETURN(const bool allowed,
                          placement_allowed(model, op, choice));
      if (!allowed || !keeps_whole(model, op, choice)) continue;
      for (const bool recompute : fates) {
        node.choices.push_back(choice_of(model, op, choice, priced, recompute));
        add_results(results, choice, priced.footprint, recompute,
                    node.choices.back().intervals);
        problem.op_choices[i].push_back(
            OpChoice{static_cast<std::int32_t>(p), recompute});
      }
    }
    if (node.choices.empty()) {
      return make_error(
          ErrorCode::kInvalidArgument,
          fmt::format("[planner] no strategy of op '{}' ({}) satisfies the "
                      "placement pins. Try: `shardwright explain` for its "
                      "strategies, or a narrower pin.",
                      graph.ops[i].key, graph.ops[i].name));
    }
    problem.node_of_op.push_back(
        static_cast<std::int32_t>(problem.choice.nodes.size()));
    problem.choice.nodes.push_back(std::move(node));
  }
  return true;
}

}  // namespace shardwright::planner
