#include "shardwright/solver/dive.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "shardwright/solver/brute_force.h"
#include "shardwright/solver/evaluate.h"
#include "shardwright/solver/random_problem.h"
#include "shardwright/solver/split.h"

namespace shardwright::solver::internal {
namespace {

SolveOptions with_cells(std::int64_t table_cells) {
  SolveOptions options;
  options.table_cells = table_cells;
  return options;
}

// Goes down from the root of a problem; `table_cells` decides between
// elimination and dual ascent.
struct Search {
  ChoiceProblem problem;
  SolveOptions options;
  Budget budget;
  Relaxation relaxation;
  Primal primal;
  Allowed all;
  SearchLimits limits;

  Search(ChoiceProblem given, std::int64_t table_cells)
      : problem(std::move(given)),
        options(with_cells(table_cells)),
        budget(options),
        relaxation(problem, Goal::kCost, &budget),
        primal(problem, Goal::kCost, &budget),
        all(relaxation.index().total(), 1) {}

  SearchResult tighten() {
    SearchResult root;
    const auto outcome = relaxation.tighten(
        all, {}, {}, {}, [](const std::vector<std::int32_t>&) {});
    root.bound = outcome.bound;
    root.prices = outcome.prices;
    root.start = outcome.start;
    root.plans = outcome.plans;
    return root;
  }
};

TEST(DiveTest, FindsChoicesThatKeepTheLimit) {
  int feasible = 0;
  int found = 0;
  int best = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ChoiceProblem problem = random_problem(seed);
    if (!problem.limit) problem.limit = 5;
    const BruteForceAnswer truth = brute_force(problem);
    if (!truth.feasible) continue;
    ++feasible;
    Search search(problem, seed % 2 == 0 ? 2 : 1 << 20);
    const SearchResult root = search.tighten();
    ASSERT_LE(root.bound, truth.cost);
    dive(&search.relaxation, &search.primal, search.all, root, search.limits,
         seed % 3, &search.budget);
    if (!search.primal.found()) continue;
    ++found;
    const Evaluation value = evaluate(problem, search.primal.choice());
    ASSERT_TRUE(value.feasible(problem.limit));
    ASSERT_EQ(value.cost, search.primal.value());
    ASSERT_GE(value.cost, truth.cost);
    best += value.cost == truth.cost ? 1 : 0;
  }
  EXPECT_GT(feasible, 400);
  // It goes down once; most small problems are solved on the way.
  EXPECT_GT(10 * found, 9 * feasible);
  EXPECT_GT(10 * best, 8 * feasible);
}

TEST(SplitTest, PartsTheChoicesOfOneNode) {
  int by_memory = 0;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ChoiceProblem problem = random_problem(seed);
    if (!problem.limit) continue;
    if (!brute_force(problem).feasible) continue;
    Search search(problem, 1 << 20);
    const auto outcome = search.relaxation.tighten(
        search.all, {}, {}, {}, [](const std::vector<std::int32_t>&) {});
    Split split = split_by_memory(search.relaxation, outcome.prices,
                                  outcome.mixture, search.all);
    by_memory += split.node >= 0 ? 1 : 0;
    if (split.node < 0) {
      split = split_anywhere(search.relaxation, outcome.mixture, search.all);
    }
    const bool has_choice =
        std::any_of(problem.nodes.begin(), problem.nodes.end(),
                    [](const Node& node) { return node.choices.size() > 1; });
    ASSERT_EQ(split.node >= 0, has_choice);
    if (!has_choice) continue;
    const FlatIndex& index = search.relaxation.index();
    std::set<std::int32_t> both(split.left.begin(), split.left.end());
    both.insert(split.right.begin(), split.right.end());
    EXPECT_FALSE(split.left.empty());
    EXPECT_FALSE(split.right.empty());
    EXPECT_EQ(both.size(), split.left.size() + split.right.size());
    EXPECT_EQ(static_cast<std::int32_t>(both.size()), index.size(split.node));
    EXPECT_EQ(*both.begin(), index.first[split.node]);
  }
  EXPECT_GT(by_memory, 20);
}

}  // namespace
}  // namespace shardwright::solver::internal
