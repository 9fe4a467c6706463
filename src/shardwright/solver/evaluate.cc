#include "shardwright/solver/evaluate.h"

#include <algorithm>

#include "shardwright/base/check.h"

namespace shardwright::solver {
namespace {

__extension__ typedef __int128 Wide;

void check_choice(const ChoiceProblem& problem,
                  std::span<const std::int32_t> choice) {
  SW_CHECK(choice.size() == problem.nodes.size(),
           "[solver] evaluate: one choice per node");
  for (std::size_t i = 0; i < choice.size(); ++i) {
    SW_CHECK(
        choice[i] >= 0 && static_cast<std::size_t>(choice[i]) <
                              problem.nodes[i].choices.size(),
        "[solver] evaluate: choice out of range at node " + std::to_string(i));
  }
}

std::int64_t saturate(Wide value) {
  return value >= kInfinite ? kInfinite : static_cast<std::int64_t>(value);
}

}  // namespace

std::vector<std::int64_t> memory_profile(const ChoiceProblem& problem,
                                         std::span<const std::int32_t> choice) {
  check_choice(problem, choice);
  std::vector<Wide> change(problem.num_positions + 1, 0);
  for (std::size_t i = 0; i < choice.size(); ++i) {
    for (const MemoryInterval& interval :
         problem.nodes[i].choices[choice[i]].intervals) {
      change[interval.lo] += interval.bytes;
      change[interval.hi] -= interval.bytes;
    }
  }
  std::vector<std::int64_t> profile(problem.num_positions);
  Wide alive = 0;
  for (std::int32_t p = 0; p < problem.num_positions; ++p) {
    alive += change[p];
    profile[p] = saturate(alive);
  }
  return profile;
}

Evaluation evaluate(const ChoiceProblem& problem,
                    std::span<const std::int32_t> choice) {
  check_choice(problem, choice);
  Evaluation out;
  Wide cost = 0;
  bool forbidden = false;
  for (std::size_t i = 0; i < choice.size(); ++i) {
    const std::int64_t own = problem.nodes[i].choices[choice[i]].cost;
    if (own >= kInfinite) forbidden = true;
    cost += own;
  }
  for (const Edge& edge : problem.edges) {
    const EdgeTable& table = *edge.table;
    const std::int64_t row = table.row_class[choice[edge.a]];
    const std::int64_t entry = table.cost[row * table.num_col_classes +
                                          table.col_class[choice[edge.b]]];
    if (entry >= kInfinite) forbidden = true;
    cost += entry;
  }
  out.cost = forbidden ? kInfinite : saturate(cost);
  const std::vector<std::int64_t> profile = memory_profile(problem, choice);
  for (std::int32_t p = 0; p < problem.num_positions; ++p) {
    if (profile[p] > out.peak) {
      out.peak = profile[p];
      out.peak_position = p;
    }
  }
  return out;
}

}  // namespace shardwright::solver
