#include "shardwright/solver/brute_force.h"

#include "shardwright/base/check.h"
#include "shardwright/solver/evaluate.h"

namespace shardwright::solver {
namespace {

// Counts up like an odometer; false after the last assignment.
bool next_assignment(const ChoiceProblem& problem,
                     std::vector<std::int32_t>* choice) {
  for (std::size_t i = 0; i < choice->size(); ++i) {
    const auto size =
        static_cast<std::int32_t>(problem.nodes[i].choices.size());
    if (++(*choice)[i] < size) return true;
    (*choice)[i] = 0;
  }
  return false;
}

}  // namespace

BruteForceAnswer brute_force(const ChoiceProblem& problem,
                             std::int64_t max_assignments) {
  std::int64_t count = 1;
  for (const Node& node : problem.nodes) {
    count *= static_cast<std::int64_t>(node.choices.size());
    SW_CHECK(count <= max_assignments, "[solver] brute force: too large");
  }
  BruteForceAnswer out;
  std::vector<std::int32_t> choice(problem.nodes.size(), 0);
  do {
    const Evaluation value = evaluate(problem, choice);
    if (value.cost >= kInfinite) continue;
    if (!out.smallest_limit || value.peak < *out.smallest_limit) {
      out.smallest_limit = value.peak;
    }
    if (!value.feasible(problem.limit)) continue;
    if (out.feasible && value.cost >= out.cost) continue;
    out.feasible = true;
    out.cost = value.cost;
    out.choice = choice;
  } while (next_assignment(problem, &choice));
  return out;
}

}  // namespace shardwright::solver
