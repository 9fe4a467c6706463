// Presolve of problems made of equal blocks: the same with sharing and without,
// as brute force, and no dearer for more blocks.
#include "shardwright/solver/presolve.h"

#include <gtest/gtest.h>

#include <string>

#include "shardwright/solver/brute_force.h"
#include "shardwright/solver/evaluate.h"
#include "shardwright/solver/problem_json.h"
#include "shardwright/solver/random_problem.h"
#include "shardwright/solver/solve.h"

namespace shardwright::solver {
namespace {

using internal::Budget;
using internal::Presolved;

std::vector<std::int64_t> random_matrix(TestRandom* random, std::size_t cells) {
  const bool forbids = random->chance(0.5);
  std::vector<std::int64_t> out;
  for (std::size_t n = 0; n < cells; ++n) {
    out.push_back(forbids && random->chance(0.35) ? kInfinite
                                                  : random->below(4));
  }
  return out;
}

// Three or four copies of a block of two or three nodes, each copy `stride`
// positions on, some intervals reaching across the blocks; equal edges within
// blocks and between neighbouring ones, some parallel and some turned around.
// Every edge has a table of its own when `separate_tables`.
ChoiceProblem repeated_problem(std::uint64_t seed, bool separate_tables) {
  TestRandom random(seed);
  const std::int32_t size = 2 + random.below(2);
  const std::int32_t copies = size == 2 ? 4 : 3;
  const std::int32_t stride = 1 + random.below(3);
  std::vector<Node> block(size);
  for (Node& node : block) {
    const std::int32_t count = 1 + random.below(3);
    for (std::int32_t k = 0; k < count; ++k) {
      Choice choice{random.below(5), {}};
      for (std::int32_t n = random.below(3); n > 0; --n) {
        const std::int32_t lo = random.below(stride);
        choice.intervals.push_back(
            {lo, lo + 1 + random.below(stride + 2), 1 + random.below(4)});
      }
      node.choices.push_back(choice);
    }
  }
  struct Link {
    std::int32_t from, to, step;
    std::vector<std::int64_t> matrix;
  };
  std::vector<Link> links;
  for (std::int32_t n = 1 + random.below(5); n > 0; --n) {
    Link link{random.below(size), random.below(size), random.below(2), {}};
    if (link.from == link.to) link.step = 1;
    link.matrix = random_matrix(&random, block[link.from].choices.size() *
                                             block[link.to].choices.size());
    links.push_back(link);
    if (random.chance(0.2)) links.push_back(link);
  }
  ChoiceProblem out;
  out.num_positions = copies * stride + stride + 3;
  for (std::int32_t copy = 0; copy < copies; ++copy) {
    for (std::int32_t i = 0; i < size; ++i) {
      out.nodes.push_back(block[i]);
      out.nodes.back().name = std::to_string(copy) + "." + std::to_string(i);
      for (Choice& choice : out.nodes.back().choices) {
        for (MemoryInterval& item : choice.intervals) {
          item.lo += copy * stride;
          item.hi += copy * stride;
        }
      }
    }
  }
  for (const Link& link : links) {
    const auto rows =
        static_cast<std::int32_t>(block[link.from].choices.size());
    const auto cols = static_cast<std::int32_t>(block[link.to].choices.size());
    auto table = make_edge_table(rows, cols, link.matrix);
    for (std::int32_t copy = 0; copy + link.step < copies; ++copy) {
      if (separate_tables) table = make_edge_table(rows, cols, link.matrix);
      out.edges.push_back({copy * size + link.from,
                           (copy + link.step) * size + link.to, table});
    }
  }
  if (random.chance(0.8)) out.limit = random.below(16);
  return out;
}

Presolved presolve(const ChoiceProblem& problem, bool share) {
  SolveOptions options;
  options.use_sharing = share;
  Budget budget(options);
  return internal::presolve(problem, {}, &budget);
}

void expect_same(const Presolved& left, const Presolved& right) {
  EXPECT_EQ(left.infeasible, right.infeasible);
  EXPECT_EQ(left.offset, right.offset);
  EXPECT_EQ(left.positions, right.positions);
  EXPECT_EQ(left.members, right.members);
  EXPECT_EQ(left.member_choice, right.member_choice);
  EXPECT_EQ(left.summary, right.summary);
  EXPECT_EQ(problem_to_json(left.problem), problem_to_json(right.problem));
}

// The small problem has the optimum of the problem, and gives it back.
void expect_same_optimum(const ChoiceProblem& problem, const Presolved& small,
                         const BruteForceAnswer& truth) {
  const BruteForceAnswer answer = brute_force(small.problem);
  ASSERT_EQ(answer.feasible, truth.feasible);
  if (!truth.feasible) return;
  EXPECT_EQ(answer.cost + small.offset, truth.cost);
  const Evaluation value = evaluate(problem, small.undo(answer.choice));
  EXPECT_EQ(value.cost, truth.cost);
  EXPECT_TRUE(value.feasible(problem.limit));
}

TEST(PresolveTest, RepeatedBlocksKeepTheirOptimum) {
  int feasible = 0;
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const ChoiceProblem problem = repeated_problem(seed, seed % 2 == 0);
    ASSERT_TRUE(validate(problem).has_value());
    const Presolved small = presolve(problem, true);
    expect_same(small, presolve(problem, false));
    const BruteForceAnswer truth = brute_force(problem);
    if (small.infeasible) {
      EXPECT_FALSE(truth.feasible);
      continue;
    }
    expect_same_optimum(problem, small, truth);
    feasible += truth.feasible ? 1 : 0;
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(feasible, 500);
}

// Without dominance and consistency other rules meet odder shapes and tables.
TEST(PresolveTest, RepeatedBlocksWithRulesOff) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const ChoiceProblem problem = repeated_problem(seed, false);
    const BruteForceAnswer truth = brute_force(problem);
    SolveOptions options;
    options.gap = 0;
    options.use_dominance = seed % 2 == 0;
    options.use_arc_consistency = seed % 3 != 0;
    options.use_parallel_edges = seed % 5 != 0;
    for (const bool share : {true, false}) {
      options.use_sharing = share;
      const Answer answer = solve(problem, options);
      ASSERT_EQ(answer.status,
                truth.feasible ? Status::kOptimal : Status::kInfeasible);
      if (truth.feasible) {
        ASSERT_EQ(answer.cost, truth.cost);
      }
    }
  }
}

TEST(PresolveTest, DeepProblemsAreTheSameWithoutSharing) {
  for (const std::int64_t limit : {120'000'000, 500'000'000}) {
    ChoiceProblem problem =
        transformer_like({.num_layers = 5, .ops_per_layer = 10, .seed = 3});
    problem.limit = limit;
    const Presolved small = presolve(problem, true);
    expect_same(small, presolve(problem, false));
    EXPECT_EQ(small.sharing.asked, presolve(problem, false).sharing.asked);
    EXPECT_LT(2 * small.sharing.worked_out, small.sharing.asked);
  }
}

TEST(PresolveTest, MoreLayersNeedNoMoreDominance) {
  auto sharing_at = [](int num_layers) {
    ChoiceProblem problem = transformer_like(
        {.num_layers = num_layers, .ops_per_layer = 10, .seed = 3});
    problem.limit = 0;  // every position stays in the way
    return presolve(problem, true).sharing;
  };
  const auto few = sharing_at(16);
  const auto many = sharing_at(96);
  EXPECT_GT(few.dominance_worked_out, 0);
  EXPECT_EQ(many.dominance_worked_out, few.dominance_worked_out);
  EXPECT_LE(many.worked_out, few.worked_out + 4);  // 117 and 119
  EXPECT_GT(many.asked, 4 * few.asked);
}

TEST(PresolveTest, ForbiddenChoicesGo) {
  ChoiceProblem problem = repeated_problem(7, false);
  problem.limit.reset();
  std::size_t count = 0;
  for (const Node& node : problem.nodes) count += node.choices.size();
  SolveOptions options;
  Budget budget(options);
  // All of the first node's choices: nothing is left.
  std::vector<bool> forbidden(count, false);
  for (std::size_t k = 0; k < problem.nodes[0].choices.size(); ++k) {
    forbidden[k] = true;
  }
  EXPECT_TRUE(internal::presolve(problem, forbidden, &budget).infeasible);
}

// Trees and rings of nodes tied by permutations with costs, each node with
// memory of its own, and one node outside. A ring may contradict itself.
ChoiceProblem tied_problem(std::uint64_t seed) {
  TestRandom random(seed);
  const std::int32_t tied = 3 + random.below(4);
  const std::int32_t count = 2 + random.below(2);
  ChoiceProblem out;
  out.num_positions = 12;
  for (std::int32_t i = 0; i <= tied; ++i) {
    Node node{"n" + std::to_string(i), {}};
    const std::int32_t lo = random.below(10);
    for (std::int32_t k = 0; k < count; ++k) {
      Choice choice{random.below(5), {}};
      if (random.chance(0.7)) {
        choice.intervals.push_back(
            {lo, lo + 1 + random.below(12 - lo), 1 + random.below(4)});
      }
      node.choices.push_back(choice);
    }
    out.nodes.push_back(node);
  }
  auto tie = [&](std::int32_t a, std::int32_t b) {
    const std::int32_t turn = random.below(count);
    std::vector<std::int64_t> matrix;
    for (std::int32_t k = 0; k < count; ++k) {
      for (std::int32_t l = 0; l < count; ++l) {
        matrix.push_back((k + turn) % count == l ? random.below(3) : kInfinite);
      }
    }
    out.edges.push_back({a, b, make_edge_table(count, count, matrix)});
  };
  for (std::int32_t i = 1; i < tied; ++i) {
    const std::int32_t to = random.below(i);
    random.chance(0.5) ? tie(i, to) : tie(to, i);
  }
  if (random.chance(0.4)) tie(0, tied - 1);
  for (std::int32_t n = 1 + random.below(2); n > 0; --n) {
    out.edges.push_back(
        {random.below(tied), tied,
         make_edge_table(count, count,
                         random_matrix(&random, std::size_t(count * count)))});
  }
  out.limit = 4 + random.below(12);
  return out;
}

TEST(PresolveTest, TiedNodesBecomeOne) {
  int feasible = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const ChoiceProblem problem = tied_problem(seed);
    ASSERT_TRUE(validate(problem).has_value());
    SolveOptions options;
    // Nothing but contraction makes the group smaller.
    options.use_dominance = options.use_folding = seed % 2 == 0;
    Budget budget(options);
    const Presolved small = internal::presolve(problem, {}, &budget);
    const BruteForceAnswer truth = brute_force(problem);
    if (small.infeasible) {
      EXPECT_FALSE(truth.feasible);
      continue;
    }
    EXPECT_LE(small.problem.nodes.size(), 3);  // group, outside, fixed ones
    expect_same_optimum(problem, small, truth);
    feasible += truth.feasible ? 1 : 0;
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(feasible, 300);
}

}  // namespace
}  // namespace shardwright::solver
