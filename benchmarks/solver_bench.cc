// Time and gap of the solver on transformer-like joint problems.
//
//   solver_bench [ops_per_layer [layers ...]]      default: 40   4 12 24 48
//
// For each depth: free memory, the smallest limit, then limits between the
// smallest one (0) and the free peak (1).
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "shardwright/solver/random_problem.h"
#include "shardwright/solver/solve.h"

namespace {

using shardwright::solver::Answer;
using shardwright::solver::ChoiceProblem;
using shardwright::solver::SolveOptions;

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                         start_)
        .count();
  }

 private:
  std::chrono::steady_clock::time_point start_ =
      std::chrono::steady_clock::now();
};

void print(const std::string& what, const Answer& answer, double seconds) {
  fmt::print("  {:<14} {:>8.3f} s  {:<10} gap {:>8.4f} %  rows {:>2}\n", what,
             seconds, shardwright::solver::to_string(answer.status),
             100 * answer.gap(), answer.prices.size());
  std::fflush(stdout);
}

void run(int num_layers, int ops_per_layer) {
  ChoiceProblem problem = shardwright::solver::transformer_like(
      {.num_layers = num_layers, .ops_per_layer = ops_per_layer, .seed = 1});
  std::size_t num_choices = 0;
  for (const auto& node : problem.nodes) num_choices += node.choices.size();
  fmt::print("{} layers: {} nodes, {} choices, {} positions\n", num_layers,
             problem.nodes.size(), num_choices, problem.num_positions);
  SolveOptions options;
  options.time_limit_s = 20;
  const Stopwatch free_watch;
  const Answer free = shardwright::solver::solve(problem, options);
  print("free", free, free_watch.seconds());
  const Stopwatch least_watch;
  const Answer least = shardwright::solver::smallest_limit(problem, options);
  print("smallest", least, least_watch.seconds());
  for (const double share : {0.8, 0.6, 0.4, 0.2, 0.1, 0.05, -0.01}) {
    problem.limit = least.smallest_limit +
                    static_cast<std::int64_t>(
                        share * double(free.peak - least.smallest_limit));
    if (*problem.limit < 0) continue;
    const Stopwatch watch;
    const Answer answer = shardwright::solver::solve(problem, options);
    print(fmt::format("limit {:.2f}", share), answer, watch.seconds());
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int ops = argc > 1 ? std::atoi(argv[1]) : 40;
  std::vector<int> layers;
  for (int i = 2; i < argc; ++i) layers.push_back(std::atoi(argv[i]));
  if (layers.empty()) layers = {4, 12, 24, 48};
  if (ops < 2) {
    fmt::print(stderr, "usage: solver_bench [ops_per_layer [layers ...]]\n");
    return 2;
  }
  for (const int count : layers) run(count, ops);
  return 0;
}
