// Bounds by dual ascent against brute force.
#include "shardwright/solver/dual_ascent.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "shardwright/solver/brute_force.h"
#include "shardwright/solver/evaluate.h"
#include "shardwright/solver/random_problem.h"

namespace shardwright::solver::internal {
namespace {

constexpr std::int64_t kAnswers = 800;  // seeds of most tests

std::vector<std::int64_t> costs_of(const ChoiceProblem& problem) {
  std::vector<std::int64_t> out;
  for (const Node& node : problem.nodes) {
    for (const Choice& choice : node.choices) out.push_back(choice.cost);
  }
  return out;
}

ChoiceProblem with_costs(ChoiceProblem problem,
                         const std::vector<std::int64_t>& costs) {
  std::size_t flat = 0;
  for (Node& node : problem.nodes) {
    for (Choice& choice : node.choices) choice.cost = costs[flat++];
  }
  return problem;
}

// Without memory.
ChoiceProblem random_free(std::uint64_t seed) {
  ChoiceProblem problem = random_problem_with_forbidden(seed);
  problem.limit.reset();
  problem.num_positions = 0;
  for (Node& node : problem.nodes) {
    for (Choice& choice : node.choices) choice.intervals.clear();
  }
  return problem;
}

std::shared_ptr<const EdgeTable> table_of(const ChoiceProblem& problem,
                                          std::int32_t a, std::int32_t b,
                                          double infinite, TestRandom* random) {
  const std::size_t rows = problem.nodes[a].choices.size();
  const std::size_t cols = problem.nodes[b].choices.size();
  std::vector<std::int64_t> matrix;
  for (std::size_t n = 0; n < rows * cols; ++n) {
    matrix.push_back(random->chance(infinite) ? kInfinite
                                              : random->below(30) - 5);
  }
  return make_edge_table(static_cast<std::int32_t>(rows),
                         static_cast<std::int32_t>(cols), matrix);
}

// Up to 8 nodes; each but the first hangs on an earlier one, or on none.
ChoiceProblem random_tree(std::uint64_t seed, double infinite) {
  TestRandom random(seed * 31 + 7);
  ChoiceProblem problem;
  const std::int32_t num_nodes = 2 + random.below(7);
  for (std::int32_t i = 0; i < num_nodes; ++i) {
    Node node{"n", {}};
    for (std::int32_t k = random.below(4); k >= 0; --k) {
      node.choices.push_back({random.below(25), {}});
    }
    problem.nodes.push_back(std::move(node));
    if (i == 0 || random.chance(0.1)) continue;
    const std::int32_t other = random.below(i);
    const bool swapped = random.chance(0.5);
    const std::int32_t a = swapped ? i : other;
    const std::int32_t b = swapped ? other : i;
    problem.edges.push_back({a, b, table_of(problem, a, b, infinite, &random)});
  }
  // Nodes in any order.
  for (std::int32_t i = 0; i < num_nodes; ++i) {
    const std::int32_t j = random.below(num_nodes);
    std::swap(problem.nodes[i], problem.nodes[j]);
    for (Edge& edge : problem.edges) {
      for (std::int32_t* end : {&edge.a, &edge.b}) {
        *end = *end == i ? j : *end == j ? i : *end;
      }
    }
  }
  return problem;
}

class DualAscentTest : public testing::Test {
 protected:
  SolveOptions options_;
  Budget budget_{options_};
};

TEST_F(DualAscentTest, TheBoundIsNeverAboveTheLeastTotal) {
  int tight = 0;
  int feasible = 0;
  for (std::uint64_t seed = 0; seed < kAnswers; ++seed) {
    SCOPED_TRACE(seed);
    const ChoiceProblem problem = random_free(seed);
    DualAscent ascent(problem, 1, &budget_);
    const std::int64_t bound = ascent.raise(costs_of(problem), {});
    const BruteForceAnswer truth = brute_force(problem);
    ASSERT_LE(bound, truth.cost);
    if (!truth.feasible) continue;
    ASSERT_LT(bound, kForbidden);  // kInfinite only where nothing is possible
    ++feasible;
    tight += bound == truth.cost ? 1 : 0;
  }
  // Mostly there is nothing between the relaxation and the truth.
  EXPECT_GT(tight, feasible * 8 / 10);
  EXPECT_LT(tight, feasible);
}

// Messages are whole numbers: what they round off is far below one unit of cost
// when costs are scaled, as they are in use.
TEST_F(DualAscentTest, TreesAreExact) {
  constexpr std::int64_t kScale = 1 << 20;
  int infeasible = 0;
  int decoded = 0;
  for (std::uint64_t seed = 0; seed < kAnswers; ++seed) {
    SCOPED_TRACE(seed);
    const ChoiceProblem problem = random_tree(seed, seed % 2 == 0 ? 0.3 : 0);
    std::vector<std::int64_t> costs = costs_of(problem);
    for (std::int64_t& cost : costs) cost *= kScale;
    DualAscent ascent(problem, kScale, &budget_);
    const std::int64_t bound = ascent.raise(costs, {});
    const std::int64_t truth = brute_force(problem).cost;
    std::vector<std::int32_t> choice;
    if (truth >= kInfinite) {
      ASSERT_EQ(bound, kInfinite);
      ++infeasible;
      continue;
    }
    ASSERT_LE(bound, truth * kScale);
    ASSERT_GT(bound, (truth - 1) * kScale);
    ASSERT_TRUE(ascent.decode(&choice));
    // Ties between two earlier neighbours are broken one by one.
    ASSERT_GE(evaluate(problem, choice).cost, truth);
    decoded += evaluate(problem, choice).cost == truth ? 1 : 0;
  }
  EXPECT_GT(infeasible, 5);
  EXPECT_GT(decoded, (kAnswers - infeasible) * 95 / 100);
}

TEST_F(DualAscentTest, ChoiceBoundsAreNeverAboveTheTruth) {
  int possible = 0;
  int tight = 0;
  for (std::uint64_t seed = 0; seed < kAnswers; ++seed) {
    SCOPED_TRACE(seed);
    const ChoiceProblem problem =
        seed % 4 == 0 ? random_tree(seed, 0.2) : random_free(seed);
    const std::vector<std::int64_t> costs = costs_of(problem);
    DualAscent ascent(problem, 1, &budget_);
    if (ascent.raise(costs, {}) >= kInfinite) continue;
    std::vector<std::int64_t> bounds;
    if (!ascent.choice_bounds(&bounds)) {
      ASSERT_FALSE(brute_force(problem).feasible);
      continue;
    }
    const FlatIndex index(problem);
    for (std::int32_t i = 0; i < index.num_nodes(); ++i) {
      for (std::int32_t k = 0; k < index.size(i); ++k) {
        std::vector<std::int64_t> fixed = costs;
        for (std::int32_t l = 0; l < index.size(i); ++l) {
          if (l != k) fixed[index.first[i] + l] = kInfinite;
        }
        const std::int64_t truth = brute_force(with_costs(problem, fixed)).cost;
        ASSERT_LE(bounds[index.first[i] + k], truth);
        possible += truth < kInfinite ? 1 : 0;
        tight += bounds[index.first[i] + k] == truth && truth < kInfinite;
      }
    }
  }
  EXPECT_GT(tight, possible / 2);
}

TEST_F(DualAscentTest, DecodedPlansHaveNoInfiniteEdge) {
  int decoded = 0;
  int best = 0;
  for (std::uint64_t seed = 0; seed < kAnswers; ++seed) {
    SCOPED_TRACE(seed);
    const ChoiceProblem problem = random_free(seed);
    DualAscent ascent(problem, 1, &budget_);
    std::vector<std::int32_t> choice;
    const std::int64_t bound = ascent.raise(costs_of(problem), {});
    if (bound >= kInfinite || !ascent.decode(&choice)) continue;
    const Evaluation value = evaluate(problem, choice);
    ASSERT_LT(value.cost, kInfinite);
    ASSERT_GE(value.cost, bound);
    ++decoded;
    best += value.cost == brute_force(problem).cost ? 1 : 0;
  }
  EXPECT_GT(decoded, kAnswers / 2);
  EXPECT_GT(best, decoded * 8 / 10);
}

TEST_F(DualAscentTest, BestByNodeTakesAllowedChoices) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const ChoiceProblem problem = random_free(seed);
    DualAscent ascent(problem, 1, &budget_);
    if (ascent.raise(costs_of(problem), {}) >= kInfinite) continue;
    std::vector<std::int32_t> choice;
    ascent.best_by_node(&choice);
    ASSERT_EQ(choice.size(), problem.nodes.size());
    for (std::size_t i = 0; i < choice.size(); ++i) {
      EXPECT_LT(problem.nodes[i].choices.at(choice[i]).cost, kInfinite);
    }
  }
}

TEST_F(DualAscentTest, MoreSweepsNeverLowerTheBound) {
  int raised = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    const ChoiceProblem problem =
        seed % 3 == 0 ? random_middle_problem(seed) : random_free(seed);
    const std::vector<std::int64_t> costs = costs_of(problem);
    DualAscent ascent(problem, 1, &budget_);
    DualAscent::Effort one;
    one.sweeps = 1;
    const std::int64_t first = ascent.raise(costs, one);
    std::int64_t before = first;
    for (int n = 0; n < 12; ++n) {  // from the messages there are
      const std::int64_t now = ascent.raise(costs, one);
      ASSERT_GE(now, before);
      before = now;
    }
    raised += before > first ? 1 : 0;
    before = std::numeric_limits<std::int64_t>::lowest();
    for (int n = 0; n < 10; ++n) {  // from the start, each time longer
      DualAscent fresh(problem, 1, &budget_);
      DualAscent::Effort more;
      more.sweeps = n;
      const std::int64_t now = fresh.raise(costs, more);
      ASSERT_GE(now, before);
      before = now;
    }
  }
  EXPECT_GT(raised, 30);
}

// A cutoff and a least gain end the sweeps early; what they give is a bound.
TEST_F(DualAscentTest, EarlyEndsGiveBounds) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const ChoiceProblem problem = random_free(seed);
    const BruteForceAnswer truth = brute_force(problem);
    DualAscent ascent(problem, 1, &budget_);
    DualAscent::Effort effort;
    effort.cutoff = double(truth.cost) / 2;
    effort.least_gain = 3;
    EXPECT_LE(ascent.raise(costs_of(problem), effort), truth.cost) << seed;
  }
}

TEST_F(DualAscentTest, ASpentBudgetGivesABound) {
  SolveOptions options;
  options.tick_limit = 1;
  Budget budget(options);
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const ChoiceProblem problem = random_free(seed);
    DualAscent ascent(problem, 1, &budget);
    EXPECT_LE(ascent.raise(costs_of(problem), {}), brute_force(problem).cost)
        << seed;
  }
  EXPECT_TRUE(budget.spent());
}

// Other node costs than the problem's, at or above kForbidden not allowed, one
// after the other on the same messages.
TEST_F(DualAscentTest, NodeCostsMayChange) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    const ChoiceProblem problem = random_free(seed);
    DualAscent ascent(problem, 1, &budget_);
    TestRandom random(seed);
    for (int n = 0; n < 6; ++n) {
      std::vector<std::int64_t> costs = costs_of(problem);
      ChoiceProblem changed = problem;
      for (std::int64_t& cost : costs) {
        cost = random.below(20) - 3;
        if (random.chance(0.25)) cost = kForbidden + random.below(2);
      }
      std::size_t flat = 0;
      for (Node& node : changed.nodes) {
        for (Choice& choice : node.choices) {
          choice.cost = costs[flat] >= kForbidden ? kInfinite : costs[flat];
          ++flat;
        }
      }
      const BruteForceAnswer truth = brute_force(changed);
      const std::int64_t bound = ascent.raise(costs, {});
      ASSERT_LE(bound, truth.cost);
      if (bound >= kInfinite) {
        ASSERT_FALSE(truth.feasible);
        continue;
      }
      std::vector<std::int64_t> bounds;
      if (!ascent.choice_bounds(&bounds)) continue;
      for (std::size_t f = 0; f < costs.size(); ++f) {
        if (costs[f] >= kForbidden) {
          EXPECT_GE(bounds[f], kForbidden);
        }
      }
      std::vector<std::int32_t> choice;
      if (ascent.decode(&choice)) {
        EXPECT_LT(evaluate(changed, choice).cost, kInfinite);
      }
    }
  }
}

// Only which pairs are infinite counts.
TEST_F(DualAscentTest, EdgeScaleZero) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    const ChoiceProblem problem =
        seed % 2 == 0 ? random_free(seed) : random_tree(seed, 0.3);
    ChoiceProblem free = problem;
    for (Edge& edge : free.edges) {
      auto table = std::make_shared<EdgeTable>(*edge.table);
      for (std::int64_t& cost : table->cost) {
        cost = cost >= kInfinite ? kInfinite : 0;
      }
      edge.table = std::move(table);
    }
    DualAscent ascent(problem, 0, &budget_);
    const std::int64_t bound = ascent.raise(costs_of(problem), {});
    ASSERT_LE(bound, brute_force(free).cost);
    if (seed % 2 == 1) {
      ASSERT_EQ(bound, brute_force(free).cost);
    }
  }
}

// Scaled costs are that large; sums of doubles must not make a bound too high.
TEST_F(DualAscentTest, VeryLargeCosts) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    TestRandom random(seed);
    ChoiceProblem problem = random_free(seed);
    // Edges up to 2^47; prices on memory make nodes dearer still.
    const auto large = [&random](std::int64_t cost, int bits) {
      if (cost >= kInfinite) return kInfinite;
      return static_cast<std::int64_t>(random.next() >> (64 - bits)) *
             (cost < 0 ? -1 : 1);
    };
    const int node_bits = 40 + random.below(15);
    for (Node& node : problem.nodes) {
      for (Choice& choice : node.choices) {
        choice.cost = large(choice.cost, node_bits);
      }
    }
    for (Edge& edge : problem.edges) {
      auto table = std::make_shared<EdgeTable>(*edge.table);
      for (std::int64_t& cost : table->cost) cost = large(cost, 47);
      edge.table = std::move(table);
    }
    const std::vector<std::int64_t> costs = costs_of(problem);
    const std::int64_t truth = brute_force(problem).cost;
    DualAscent ascent(problem, 1, &budget_);
    const std::int64_t bound = ascent.raise(costs, {});
    ASSERT_LE(bound, truth);
    std::vector<std::int64_t> bounds;
    if (bound >= kInfinite || !ascent.choice_bounds(&bounds)) continue;
    const FlatIndex index(problem);
    for (std::int32_t i = 0; i < index.num_nodes(); ++i) {
      for (std::int32_t k = 0; k < index.size(i); ++k) {
        std::vector<std::int64_t> fixed = costs;
        for (std::int32_t l = 0; l < index.size(i); ++l) {
          if (l != k) fixed[index.first[i] + l] = kInfinite;
        }
        ASSERT_LE(bounds[index.first[i] + k],
                  brute_force(with_costs(problem, fixed)).cost)
            << "node " << i << ", choice " << k << ", bits " << node_bits;
      }
    }
  }
}

TEST_F(DualAscentTest, MessagesCanBeKeptAndForgotten) {
  const ChoiceProblem problem = random_middle_problem(1);
  const std::vector<std::int64_t> costs = costs_of(problem);
  DualAscent ascent(problem, 1, &budget_);
  DualAscent::Effort one;
  one.sweeps = 1;
  const std::int64_t first = ascent.raise(costs, one);
  const std::int64_t high = ascent.raise(costs, {});
  ASSERT_GT(high, first);
  const DualAscent::Messages kept = ascent.messages();
  ascent.set_messages(DualAscent::Messages(kept.size(), 0.0));
  EXPECT_EQ(ascent.raise(costs, one), first);
  ascent.set_messages(kept);
  EXPECT_GE(ascent.raise(costs, one), high);
}

TEST_F(DualAscentTest, NoNodesAndNoEdges) {
  DualAscent empty(ChoiceProblem{}, 1, &budget_);
  EXPECT_EQ(empty.raise({}, {}), 0);
  ChoiceProblem problem;
  problem.nodes = {{"a", {{4, {}}, {3, {}}}}, {"b", {{-5, {}}}}};
  DualAscent ascent(problem, 1, &budget_);
  EXPECT_EQ(ascent.raise(costs_of(problem), {}), -2);
  std::vector<std::int64_t> bounds;
  ASSERT_TRUE(ascent.choice_bounds(&bounds));
  EXPECT_EQ(bounds, (std::vector<std::int64_t>{-1, -2, -2}));
  EXPECT_EQ(
      ascent.raise(std::vector<std::int64_t>{kInfinite, kInfinite, 1}, {}),
      kInfinite);
}

}  // namespace
}  // namespace shardwright::solver::internal
