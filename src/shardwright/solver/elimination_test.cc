// Elimination against brute force, min-marginals included.
#include "shardwright/solver/elimination.h"

#include <gtest/gtest.h>

#include "shardwright/solver/brute_force.h"
#include "shardwright/solver/evaluate.h"
#include "shardwright/solver/random_problem.h"

namespace shardwright::solver::internal {
namespace {

std::vector<std::int64_t> costs_of(const ChoiceProblem& problem) {
  std::vector<std::int64_t> out;
  for (const Node& node : problem.nodes) {
    for (const Choice& choice : node.choices) out.push_back(choice.cost);
  }
  return out;
}

TEST(EliminationTest, MinimumAndMarginalsEqualBruteForce) {
  const SolveOptions options;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    ChoiceProblem problem = random_problem(seed);
    problem.limit.reset();
    Budget budget(options);
    Elimination elimination(problem, 1, {.cells = options.table_cells});
    ASSERT_TRUE(elimination.fits());
    const std::vector<std::int64_t> costs = costs_of(problem);
    std::vector<std::int32_t> choice;
    const std::int64_t least = elimination.minimise(costs, &choice, &budget);
    ASSERT_EQ(least, brute_force(problem).cost);
    if (least >= kInfinite) continue;
    EXPECT_EQ(evaluate(problem, choice).cost, least);
    std::vector<std::int64_t> marginal;
    ASSERT_TRUE(elimination.marginals(costs, &marginal, &budget));
    const FlatIndex index(problem);
    for (std::int32_t i = 0; i < index.num_nodes(); ++i) {
      for (std::int32_t k = 0; k < index.size(i); ++k) {
        ChoiceProblem fixed = problem;  // every other choice made dear
        constexpr std::int64_t kDear = 1'000'000'000'000;
        for (std::int32_t l = 0; l < index.size(i); ++l) {
          if (l != k) fixed.nodes[i].choices[l].cost += kDear;
        }
        std::int64_t truth = brute_force(fixed).cost;
        if (truth > kDear / 2) truth = kInfinite;
        EXPECT_EQ(marginal[index.first[i] + k], truth);
      }
    }
  }
}

// Three nodes that all touch: the last two need a table of 3 x 3 cells.
TEST(EliminationTest, SaysWhenATableIsTooLarge) {
  ChoiceProblem problem;
  std::vector<std::int64_t> costs;
  for (std::int64_t n = 0; n < 9; ++n) costs.push_back(n * n);
  const auto table = make_edge_table(3, 3, costs);
  for (int i = 0; i < 3; ++i) {
    problem.nodes.push_back({"n", {{0, {}}, {0, {}}, {0, {}}}});
  }
  problem.edges = {{0, 1, table}, {1, 2, table}, {0, 2, table}};
  EXPECT_TRUE(Elimination(problem, 1, {.cells = 9}).fits());
  EXPECT_FALSE(Elimination(problem, 1, {.cells = 8}).fits());
  EXPECT_FALSE(Elimination(problem, 1, {.cells = 9, .work = 1}).fits());
}

// A hub of two choices joined to 200 nodes: tables stay tiny.
TEST(EliminationTest, AHubStaysCheap) {
  ChoiceProblem problem;
  problem.nodes.push_back({"hub", {{0, {}}, {1, {}}}});
  std::vector<std::int64_t> chain;
  std::vector<std::int64_t> to_hub;
  for (int k = 0; k < 10; ++k) {
    for (int l = 0; l < 10; ++l) chain.push_back(k == l ? 0 : 3);
    to_hub.push_back(k % 2 == 0 ? 0 : kInfinite);
    to_hub.push_back(0);
  }
  const auto chain_table = make_edge_table(10, 10, chain);
  const auto hub_table = make_edge_table(10, 2, to_hub);
  for (int i = 1; i <= 200; ++i) {
    Node node{"n", {}};
    for (int k = 0; k < 10; ++k) node.choices.push_back({k == 7 ? 0 : 1, {}});
    problem.nodes.push_back(node);
    problem.edges.push_back({i, 0, hub_table});
    if (i > 1) problem.edges.push_back({i - 1, i, chain_table});
  }
  const SolveOptions options;
  Budget budget(options);
  Elimination elimination(problem, 1, {.cells = options.table_cells});
  EXPECT_TRUE(elimination.fits());
  // About 10 x 2 cells a node; the hub first would need 10^200.
  EXPECT_LE(elimination.num_cells(), 2 * 200 * 10 * 2);
  std::vector<std::int32_t> choice;
  EXPECT_EQ(elimination.minimise(costs_of(problem), &choice, &budget), 1);
  EXPECT_EQ(choice[0], 1);
}

}  // namespace
}  // namespace shardwright::solver::internal
