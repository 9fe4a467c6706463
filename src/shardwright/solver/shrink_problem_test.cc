#include "shardwright/solver/shrink_problem.h"

#include <gtest/gtest.h>

#include "shardwright/base/check.h"
#include "shardwright/solver/brute_force.h"
#include "shardwright/solver/random_problem.h"

namespace shardwright::solver {
namespace {

// "Fails" whenever memory alone is too small. Costs and edges do not matter for
// that, and without any one of the intervals that are left there is enough.
TEST(ShrinkProblemTest, LeavesOnlyWhatMatters) {
  const auto fails = [](const ChoiceProblem& problem) {
    const BruteForceAnswer truth = brute_force(problem);
    return !truth.feasible && truth.smallest_limit.has_value();
  };
  int shrunk = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const ChoiceProblem problem = random_problem(seed);
    if (!fails(problem)) continue;
    const ChoiceProblem small = shrink_problem(problem, fails);
    ++shrunk;
    EXPECT_TRUE(fails(small)) << seed;
    EXPECT_TRUE(small.limit.has_value()) << seed;
    EXPECT_TRUE(small.edges.empty()) << seed;
    for (std::size_t i = 0; i < small.nodes.size(); ++i) {
      const Node& node = small.nodes[i];
      ASSERT_EQ(node.choices.size(), 1U) << seed;
      EXPECT_EQ(node.choices[0].cost, 0) << seed;
      EXPECT_FALSE(node.choices[0].intervals.empty()) << seed;
      for (std::size_t n = 0; n < node.choices[0].intervals.size(); ++n) {
        ChoiceProblem smaller = small;
        auto& intervals = smaller.nodes[i].choices[0].intervals;
        intervals.erase(intervals.begin() + static_cast<std::ptrdiff_t>(n));
        EXPECT_FALSE(fails(smaller)) << seed;
      }
    }
  }
  EXPECT_GT(shrunk, 10);
}

// "Fails" when two nodes have an infinite pair between them.
TEST(ShrinkProblemTest, KeepsTheEdgeThatMatters) {
  const auto fails = [](const ChoiceProblem& problem) {
    for (const Edge& edge : problem.edges) {
      for (const std::int64_t cost : edge.table->cost) {
        if (cost >= kInfinite) return true;
      }
    }
    return false;
  };
  int shrunk = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const ChoiceProblem problem = random_problem(seed);
    if (!fails(problem)) continue;
    const ChoiceProblem small = shrink_problem(problem, fails);
    ++shrunk;
    EXPECT_EQ(small.nodes.size(), 2U) << seed;
    ASSERT_EQ(small.edges.size(), 1U) << seed;
    EXPECT_FALSE(small.limit.has_value()) << seed;
    EXPECT_EQ(small.num_positions, 0) << seed;
  }
  EXPECT_GT(shrunk, 50);
}

TEST(ShrinkProblemTest, RefusesAProblemThatDoesNotFail) {
  const auto never = [](const ChoiceProblem&) { return false; };
  EXPECT_THROW(shrink_problem(random_problem(1), never), InternalError);
}

}  // namespace
}  // namespace shardwright::solver
