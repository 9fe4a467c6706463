#include "shardwright/solver/domains.h"

namespace shardwright::solver::internal {

Domains::Domains(const ChoiceProblem& problem, Budget* budget)
    : problem_(problem),
      budget_(budget),
      index_(problem),
      edges_of_(edges_of_nodes(problem)),
      alive_(index_.total(), 1) {
  for (const Node& node : problem.nodes) {
    remaining_.push_back(static_cast<std::int32_t>(node.choices.size()));
  }
}

void Domains::remove(std::int32_t node, std::int32_t choice) {
  alive_[index_.first[node] + choice] = 0;
  --remaining_[node];
  trail_.emplace_back(node, choice);
}

bool Domains::fix(std::int32_t node, std::int32_t choice) {
  if (!possible(node, choice)) return false;
  const std::size_t before = trail_.size();
  for (std::int32_t k = 0; k < index_.size(node); ++k) {
    if (k != choice && possible(node, k)) remove(node, k);
  }
  if (propagate(node)) return true;
  for (; trail_.size() > before; trail_.pop_back()) {
    const auto [other, k] = trail_.back();
    alive_[index_.first[other] + k] = 1;
    ++remaining_[other];
  }
  return false;
}

bool Domains::revise(const Edge& edge, std::int32_t node) {
  const EdgeTable& table = *edge.table;
  const bool is_a = edge.a == node;
  const std::int32_t other = is_a ? edge.b : edge.a;
  const auto& mine = is_a ? table.row_class : table.col_class;
  const auto& theirs = is_a ? table.col_class : table.row_class;
  const std::int32_t num_theirs =
      is_a ? table.num_col_classes : table.num_row_classes;
  std::vector<std::uint8_t> seen(
      is_a ? table.num_row_classes : table.num_col_classes, 0);
  std::vector<std::uint8_t> supported(num_theirs, 0);
  for (std::int32_t k = 0; k < index_.size(node); ++k) {
    if (!possible(node, k) || seen[mine[k]] != 0) continue;
    seen[mine[k]] = 1;
    for (std::int32_t c = 0; c < num_theirs; ++c) {
      const std::size_t row = is_a ? mine[k] : c;
      const std::size_t col = is_a ? c : mine[k];
      if (table.cost[row * table.num_col_classes + col] < kInfinite) {
        supported[c] = 1;
      }
    }
    budget_->charge(num_theirs);
  }
  for (std::int32_t k = 0; k < index_.size(other); ++k) {
    if (possible(other, k) && supported[theirs[k]] == 0) remove(other, k);
  }
  budget_->charge(index_.size(node) + index_.size(other));
  return remaining_[other] > 0;
}

bool Domains::propagate(std::int32_t start) {
  std::vector<std::int32_t> queue = {start};
  for (std::size_t n = 0; n < queue.size(); ++n) {
    const std::int32_t node = queue[n];
    for (const std::int32_t e : edges_of_[node]) {
      const Edge& edge = problem_.edges[e];
      const std::int32_t other = edge.a == node ? edge.b : edge.a;
      const std::int32_t before = remaining_[other];
      if (!revise(edge, node)) return false;
      if (remaining_[other] < before) queue.push_back(other);
    }
    if (budget_->spent()) return false;
  }
  return true;
}

}  // namespace shardwright::solver::internal
