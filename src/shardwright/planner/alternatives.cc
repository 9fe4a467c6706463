#include "shardwright/planner/alternatives.h"

#include <memory>

namespace shardwright::planner {
namespace {

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

std::vector<std::int32_t> picked(const std::vector<std::int32_t>& list,
                                 const std::vector<std::int32_t>& kept) {
  std::vector<std::int32_t> out;
  out.reserve(kept.size());
  for (const std::int32_t k : kept) out.push_back(list[at(k)]);
  return out;
}

// The problem with only these choices of one node left.
solver::ChoiceProblem restricted(const solver::ChoiceProblem& problem,
                                 std::int32_t node,
                                 const std::vector<std::int32_t>& kept) {
  solver::ChoiceProblem out = problem;
  std::vector<solver::Choice> choices;
  choices.reserve(kept.size());
  for (const std::int32_t k : kept) {
    choices.push_back(problem.nodes[at(node)].choices[at(k)]);
  }
  out.nodes[at(node)].choices = std::move(choices);
  for (solver::Edge& edge : out.edges) {
    if (edge.a != node && edge.b != node) continue;
    auto table = std::make_shared<solver::EdgeTable>(*edge.table);
    if (edge.a == node) table->row_class = picked(table->row_class, kept);
    if (edge.b == node) table->col_class = picked(table->col_class, kept);
    edge.table = std::move(table);
  }
  return out;
}

const strategy::Strategy& strategy_at(const Model& model, OpId op,
                                      const OpChoice& choice) {
  const OpClass& op_class = model.class_of(op);
  return op_class.set.strategies[at(op_class.priced[at(choice.priced)].index)];
}

std::vector<std::string> strategies_of(const Model& model,
                                       const PlanningProblem& problem,
                                       const std::vector<std::int32_t>& choice,
                                       OpId fixed,
                                       const std::vector<std::int32_t>& kept) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < problem.op_choices.size(); ++i) {
    std::int32_t k = choice[at(problem.node_of_op[i])];
    if (i == fixed.index()) k = kept[at(k)];
    out.push_back(
        strategy_at(model, OpId(i), problem.op_choices[i][at(k)]).text);
  }
  return out;
}

}  // namespace

std::vector<Alternative> alternatives_of(const Model& model,
                                         const PlanningProblem& problem,
                                         OpId op,
                                         const solver::SolveOptions& options) {
  const OpClass& op_class = model.class_of(op);
  const auto& choices = problem.op_choices[op.index()];
  const std::int32_t node = problem.node_of_op[op.index()];
  std::vector<Alternative> out;
  for (std::size_t p = 0; p < op_class.priced.size(); ++p) {
    std::vector<std::int32_t> kept;  // run once, run again
    for (std::size_t k = 0; k < choices.size(); ++k) {
      if (at(choices[k].priced) == p) {
        kept.push_back(static_cast<std::int32_t>(k));
      }
    }
    if (kept.empty()) continue;
    const solver::Answer answer =
        solver::solve(restricted(problem.choice, node, kept), options);
    Alternative alternative;
    alternative.priced = &op_class.priced[p];
    alternative.strategy =
        &op_class.set.strategies[at(alternative.priced->index)];
    alternative.status = answer.status;
    alternative.cost = answer.cost;
    alternative.smallest_limit = answer.smallest_limit;
    if (!answer.choice.empty()) {
      alternative.strategies =
          strategies_of(model, problem, answer.choice, op, kept);
    }
    out.push_back(std::move(alternative));
  }
  return out;
}

}  // namespace shardwright::planner
