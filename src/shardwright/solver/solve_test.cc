// The solver against brute force, and its promises: determinism, statuses,
// bounds, limits.
#include "shardwright/solver/solve.h"

#include <gtest/gtest.h>

#include "shardwright/base/check.h"
#include "shardwright/solver/brute_force.h"
#include "shardwright/solver/evaluate.h"
#include "shardwright/solver/random_problem.h"

namespace shardwright::solver {
namespace {

SolveOptions exact() {
  SolveOptions options;
  options.gap = 0;
  return options;
}

void expect_as_brute_force(const ChoiceProblem& problem,
                           const SolveOptions& options, std::uint64_t seed) {
  const BruteForceAnswer truth = brute_force(problem);
  const Answer answer = solve(problem, options);
  if (truth.feasible) {
    ASSERT_EQ(answer.status, Status::kOptimal) << "seed " << seed;
    EXPECT_EQ(answer.cost, truth.cost) << "seed " << seed;
    EXPECT_EQ(answer.bound, truth.cost) << "seed " << seed;
    const Evaluation value = evaluate(problem, answer.choice);
    EXPECT_EQ(value.cost, truth.cost) << "seed " << seed;
    EXPECT_TRUE(value.feasible(problem.limit)) << "seed " << seed;
    EXPECT_EQ(value.peak, answer.peak) << "seed " << seed;
  } else {
    ASSERT_EQ(answer.status, Status::kInfeasible) << "seed " << seed;
    EXPECT_TRUE(answer.choice.empty()) << "seed " << seed;
    EXPECT_EQ(answer.smallest_limit, truth.smallest_limit.value_or(kInfinite))
        << "seed " << seed;
    EXPECT_EQ(answer.smallest_limit_bound,
              truth.smallest_limit.value_or(kInfinite))
        << "seed " << seed;
  }
}

TEST(SolveTest, EqualsBruteForce) {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    expect_as_brute_force(random_problem_with_forbidden(seed), exact(), seed);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(SolveTest, EqualsBruteForceWithEachTechniqueOff) {
  bool SolveOptions::*const switches[] = {
      &SolveOptions::use_arc_consistency, &SolveOptions::use_folding,
      &SolveOptions::use_contraction,     &SolveOptions::use_separable_edges,
      &SolveOptions::use_parallel_edges,  &SolveOptions::use_dominance,
      &SolveOptions::use_positions,       &SolveOptions::use_recombination,
      &SolveOptions::use_reduced_costs,   &SolveOptions::use_sharing,
      &SolveOptions::use_neighbourhoods,  &SolveOptions::use_labels};
  for (const auto member : switches) {
    SolveOptions options = exact();
    options.*member = false;
    for (std::uint64_t seed = 0; seed < 250; ++seed) {
      expect_as_brute_force(random_problem_with_forbidden(seed), options, seed);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(SolveTest, EqualsBruteForceWithEverythingOff) {
  SolveOptions options = exact();
  options.use_arc_consistency = options.use_folding = false;
  options.use_contraction = options.use_separable_edges = false;
  options.use_parallel_edges = options.use_dominance = false;
  options.use_positions = options.use_recombination = false;
  options.use_reduced_costs = options.use_sharing = false;
  options.use_neighbourhoods = options.use_labels = false;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    expect_as_brute_force(random_problem_with_forbidden(seed), options, seed);
    if (testing::Test::HasFatalFailure()) return;
  }
}

// With tables of at most two cells dual ascent bounds nearly everything.
TEST(SolveTest, EqualsBruteForceWithDualAscent) {
  SolveOptions options = exact();
  options.table_cells = 2;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    expect_as_brute_force(random_problem_with_forbidden(seed), options, seed);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(SolveTest, SmallestLimitEqualsBruteForce) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const ChoiceProblem problem = random_problem_with_forbidden(seed);
    const BruteForceAnswer truth = brute_force(problem);
    const Answer answer = smallest_limit(problem, exact());
    if (!truth.smallest_limit) {
      ASSERT_EQ(answer.status, Status::kInfeasible) << "seed " << seed;
      continue;
    }
    ASSERT_EQ(answer.status, Status::kOptimal) << "seed " << seed;
    ASSERT_EQ(answer.smallest_limit, *truth.smallest_limit) << "seed " << seed;
    ASSERT_EQ(answer.bound, *truth.smallest_limit) << "seed " << seed;
  }
}

TEST(SolveTest, AnswersWithinTheGapAreCalledOptimal) {
  SolveOptions options;
  options.gap = 0.2;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const ChoiceProblem problem = random_problem_with_forbidden(seed);
    const BruteForceAnswer truth = brute_force(problem);
    if (!truth.feasible) continue;
    const Answer answer = solve(problem, options);
    ASSERT_EQ(answer.status, Status::kOptimal) << "seed " << seed;
    EXPECT_LE(answer.bound, truth.cost) << "seed " << seed;
    EXPECT_GE(answer.cost, truth.cost) << "seed " << seed;
    if (answer.cost > 0) {
      EXPECT_LE(answer.gap(), 0.2) << "seed " << seed;
    }
  }
}

ChoiceProblem small_transformer() {
  ChoiceProblem problem =
      transformer_like({.num_layers = 3, .ops_per_layer = 8, .seed = 5});
  const Answer least = smallest_limit(problem, {});
  EXPECT_EQ(least.status, Status::kOptimal);
  problem.limit = least.smallest_limit + least.smallest_limit / 10;
  return problem;
}

TEST(SolveTest, SameInputSameAnswer) {
  const ChoiceProblem problem = small_transformer();
  const Answer first = solve(problem);
  const Answer second = solve(problem);
  EXPECT_EQ(first.status, Status::kOptimal);
  EXPECT_EQ(first.choice, second.choice);
  EXPECT_EQ(first.bound, second.bound);
  EXPECT_EQ(first.ticks, second.ticks);
  EXPECT_EQ(first.techniques, second.techniques);
}

TEST(SolveTest, TicksStopAtTheSamePlace) {
  const ChoiceProblem problem = small_transformer();
  const std::int64_t whole = solve(problem, exact()).ticks;
  for (const std::int64_t part : {2, 3, 10, 100}) {
    SolveOptions options = exact();
    options.tick_limit = whole / part;
    const Answer first = solve(problem, options);
    const Answer second = solve(problem, options);
    EXPECT_EQ(first.choice, second.choice);
    EXPECT_EQ(first.bound, second.bound);
    EXPECT_EQ(first.techniques.back(), "stopped by ticks");
    EXPECT_LE(first.bound, first.cost);
  }
}

TEST(SolveTest, MoreMemoryNeverCostsMore) {
  ChoiceProblem problem = small_transformer();
  std::int64_t before = kInfinite;
  for (int step = 0; step < 6; ++step) {
    *problem.limit += *problem.limit / 10;
    const Answer answer = solve(problem, exact());
    ASSERT_EQ(answer.status, Status::kOptimal);
    EXPECT_LE(answer.cost, before);
    before = answer.cost;
  }
}

TEST(SolveTest, AnInterruptEndsTheSearch) {
  const ChoiceProblem problem =
      transformer_like({.num_layers = 24, .ops_per_layer = 16, .seed = 3});
  SolveOptions options = exact();
  options.interrupted = [] { return true; };
  const Answer answer = solve(problem, options);
  EXPECT_NE(answer.status, Status::kInfeasible);
  EXPECT_EQ(answer.techniques.back(), "stopped by time");
}

TEST(SolveTest, ProgressOnlyImproves) {
  const ChoiceProblem problem = small_transformer();
  SolveOptions options = exact();
  std::int64_t cost = kInfinite;
  std::int64_t bound = std::numeric_limits<std::int64_t>::lowest();
  int calls = 0;
  options.progress = [&](const Progress& now) {
    ++calls;
    EXPECT_LE(now.cost, cost);
    cost = now.cost;
    bound = std::max(bound, now.bound);
  };
  const Answer answer = solve(problem, options);
  EXPECT_GT(calls, 1);
  EXPECT_GE(cost, answer.cost);
  EXPECT_LE(bound, answer.bound);
}

TEST(SolveTest, AnyStartLeadsToTheOptimum) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const ChoiceProblem problem = random_problem(seed);
    TestRandom random(seed);
    SolveOptions options = exact();
    for (const Node& node : problem.nodes) {
      options.start.push_back(
          random.below(static_cast<std::int32_t>(node.choices.size())));
    }
    expect_as_brute_force(problem, options, seed);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(SolveTest, TheBestChoiceAsStartIsReturned) {
  int kept = 0;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const ChoiceProblem problem = random_problem(seed);
    const BruteForceAnswer truth = brute_force(problem);
    if (!truth.feasible) continue;
    SolveOptions options = exact();
    options.start = truth.choice;
    const Answer answer = solve(problem, options);
    ASSERT_EQ(answer.status, Status::kOptimal) << "seed " << seed;
    EXPECT_EQ(answer.choice, truth.choice) << "seed " << seed;
    EXPECT_EQ(answer.bound, truth.cost) << "seed " << seed;
    ++kept;
  }
  EXPECT_GT(kept, 100);
}

TEST(SolveTest, AStopBeforeTheSearchReturnsTheStart) {
  const ChoiceProblem problem = small_transformer();
  SolveOptions options = exact();
  options.start = smallest_limit(problem, {}).choice;
  options.tick_limit = 1;
  const Answer answer = solve(problem, options);
  EXPECT_EQ(answer.status, Status::kFeasible);
  EXPECT_EQ(answer.choice, options.start);
  EXPECT_LE(answer.bound, answer.cost);
}

TEST(SolveTest, RefusesAStartOfAnotherProblem) {
  SolveOptions options;
  options.start = {0};
  EXPECT_THROW(solve(small_transformer(), options), InternalError);
}

TEST(SolveTest, EmptyProblem) {
  const Answer answer = solve(ChoiceProblem{});
  EXPECT_EQ(answer.status, Status::kOptimal);
  EXPECT_EQ(answer.cost, 0);
  EXPECT_EQ(answer.gap(), 0);
}

TEST(SolveTest, RefusesAnInvalidProblem) {
  ChoiceProblem problem;
  problem.nodes.push_back({"nothing", {}});
  EXPECT_THROW(solve(problem), InternalError);
}

}  // namespace
}  // namespace shardwright::solver
