// Labels against brute force: by themselves, and as the relaxation uses them.
#include "shardwright/solver/label_search.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "shardwright/solver/brute_force.h"
#include "shardwright/solver/evaluate.h"
#include "shardwright/solver/random_problem.h"
#include "shardwright/solver/relaxation.h"

namespace shardwright::solver::internal {
namespace {

constexpr std::int64_t kManyLabels = 10'000'000;

// Calls `visit(choice)` with every assignment.
template <typename Visit>
void for_each_choice(const ChoiceProblem& problem, const Visit& visit) {
  std::vector<std::int32_t> choice(problem.nodes.size(), 0);
  while (true) {
    visit(choice);
    std::size_t i = 0;
    while (i < choice.size() &&
           ++choice[i] ==
               static_cast<std::int32_t>(problem.nodes[i].choices.size())) {
      choice[i++] = 0;
    }
    if (i == choice.size()) return;
  }
}

std::int64_t sum_of(const std::vector<std::int32_t>& choice,
                    const FlatIndex& index,
                    std::span<const std::int64_t> numbers) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < choice.size(); ++i) {
    sum += numbers[index.first[i] + choice[i]];
  }
  return sum;
}

// Rows of random bytes (zeros and equal ones among them), and a whole price for
// each: the priced costs are then exact.
struct RandomTask {
  ChoiceProblem problem;
  std::vector<std::int64_t> cost;
  std::vector<std::int64_t> priced;
  LabelTask task;

  RandomTask(std::uint64_t seed, std::int32_t num_rows) {
    TestRandom random(seed * 977 + 5);
    problem = random_problem_with_forbidden(seed);
    problem.limit.reset();
    const FlatIndex index(problem);
    for (const Node& node : problem.nodes) {
      for (const Choice& choice : node.choices) {
        cost.push_back(std::min(choice.cost, kInfinite));
      }
    }
    priced = cost;
    task.limit = random.below(4 * index.num_nodes());
    std::int64_t of_limit = 0;
    for (std::int32_t r = 0; r < num_rows; ++r) {
      std::vector<std::int64_t> bytes;
      const std::int64_t price = random.below(4);
      for (std::int32_t f = 0; f < index.total(); ++f) {
        bytes.push_back(std::max(0, random.below(9) - 2));
        if (priced[f] < kInfinite) priced[f] += price * bytes.back();
      }
      task.bytes.push_back(std::move(bytes));
      of_limit += price * task.limit;
    }
    cutoff = random.below(60) - 5;
    if (random.chance(0.2)) cutoff = 1'000'000'000'000;
    task.most_value = cutoff - 1 + of_limit;
    task.most_labels = kManyLabels;
    task.cost = cost;
    task.priced_cost = priced;
  }
  RandomTask(const RandomTask&) = delete;  // the task looks into the vectors
  RandomTask& operator=(const RandomTask&) = delete;

  std::int64_t cutoff = 0;
};

// The least cost of a plan that keeps every row, and is below the cutoff.
std::int64_t truth_of(const RandomTask& random) {
  const FlatIndex index(random.problem);
  std::int64_t least = kInfinite;
  for_each_choice(random.problem, [&](const std::vector<std::int32_t>& choice) {
    const std::int64_t cost = evaluate(random.problem, choice).cost;
    for (const auto& row : random.task.bytes) {
      if (sum_of(choice, index, row) > random.task.limit) return;
    }
    if (cost < random.cutoff) least = std::min(least, cost);
  });
  return least;
}

TEST(LabelSearchTest, EqualsBruteForce) {
  const SolveOptions options;
  int found = 0;
  int none = 0;
  for (std::uint64_t seed = 0; seed < 1200; ++seed) {
    SCOPED_TRACE(seed);
    const RandomTask random(seed, static_cast<std::int32_t>(seed % 5));
    Budget budget(options);
    Elimination elimination(random.problem, 1, {.cells = options.table_cells});
    std::vector<std::int32_t> choice;
    const std::int64_t least =
        elimination.minimise(random.priced, &choice, &budget);
    const std::int64_t truth = truth_of(random);
    if (least >= kForbidden) {
      ASSERT_EQ(truth, kInfinite);
      continue;
    }
    const LabelResult result =
        search_labels(&elimination, random.task, &budget);
    ASSERT_TRUE(result.finished);
    if (truth >= kInfinite) {
      // A plan that leaves memory unused may be found above the cutoff.
      ASSERT_GE(result.cost, random.cutoff);
      ++none;
      continue;
    }
    ASSERT_EQ(result.cost, truth);
    EXPECT_EQ(evaluate(random.problem, result.choice).cost, truth);
    const FlatIndex index(random.problem);
    for (const auto& row : random.task.bytes) {
      EXPECT_LE(sum_of(result.choice, index, row), random.task.limit);
    }
    ++found;
  }
  EXPECT_GT(found, 200);
  EXPECT_GT(none, 100);
}

TEST(LabelSearchTest, TooFewLabelsAreNoAnswer) {
  const SolveOptions options;
  int stopped = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    RandomTask random(seed, 2);
    Budget budget(options);
    Elimination elimination(random.problem, 1, {.cells = options.table_cells});
    std::vector<std::int32_t> choice;
    if (elimination.minimise(random.priced, &choice, &budget) >= kForbidden) {
      continue;
    }
    const std::int64_t truth = truth_of(random);
    for (const std::int64_t most : {1, 3, 10, 30, 100}) {
      random.task.most_labels = most;
      const LabelResult result =
          search_labels(&elimination, random.task, &budget);
      if (!result.finished) {
        ++stopped;
        EXPECT_TRUE(result.choice.empty());
        EXPECT_EQ(result.cost, kInfinite);
      } else if (truth < kInfinite) {
        EXPECT_EQ(result.cost, truth);
      } else {
        EXPECT_GE(result.cost, random.cutoff);
      }
    }
  }
  EXPECT_GT(stopped, 300);
}

TEST(LabelSearchTest, ASpentBudgetIsNoAnswer) {
  const SolveOptions options;
  Budget budget(options);
  const RandomTask random(6, 2);
  Elimination elimination(random.problem, 1, {.cells = options.table_cells});
  std::vector<std::int32_t> choice;
  ASSERT_LT(elimination.minimise(random.priced, &choice, &budget), kForbidden);
  SolveOptions few;
  few.tick_limit = 1;
  Budget spent(few);
  spent.charge(1);
  EXPECT_FALSE(search_labels(&elimination, random.task, &spent).finished);
}

std::int64_t any_cutoff(const BruteForceAnswer& truth, TestRandom* random) {
  const std::int64_t about = truth.feasible ? truth.cost : 20;
  constexpr std::int64_t kAround[] = {-5, 0, 1, 2, 10};
  const std::int32_t pick = random->below(7);
  if (pick == 5) return kInfinite;
  if (pick == 6) return kLargestTotal;
  return about + kAround[pick];
}

// Any prices on any rows, any cutoff: labels find the least cost below it.
TEST(CheapestBelowTest, EqualsBruteForce) {
  const SolveOptions options;
  int found = 0;
  int none = 0;
  int several = 0;
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(seed);
    ChoiceProblem problem = random_problem_with_forbidden(seed);
    if (!problem.limit) problem.limit = static_cast<std::int64_t>(seed % 20);
    TestRandom random(seed + 1);
    Budget budget(options);
    Relaxation relaxation(problem, Goal::kCost, &budget);
    ASSERT_TRUE(relaxation.exact());
    Allowed allowed(relaxation.index().total(), 1);
    std::size_t flat = 0;
    for (Node& node : problem.nodes) {
      for (Choice& choice : node.choices) {
        if (choice.cost >= kInfinite) allowed[flat] = 0;
        if (random.chance(0.1)) allowed[flat] = 0;
        ++flat;
      }
    }
    ChoiceProblem restricted = problem;
    flat = 0;
    for (Node& node : restricted.nodes) {
      for (Choice& choice : node.choices) {
        if (allowed[flat++] == 0) choice.cost = kInfinite;
      }
    }
    const BruteForceAnswer truth = brute_force(restricted);
    // Adds the rows that plans exceed.
    relaxation.tighten(allowed, {}, {}, {}, [](const auto&) {});
    for (int n = 0; n < 3; ++n) {
      Relaxation::Prices prices(relaxation.num_rows(), 0.0);
      for (double& price : prices) {
        if (random.chance(0.7)) price = random.below(3000) / 1000.0;
      }
      several += prices.size() > 1 ? 1 : 0;
      const std::int64_t cutoff = any_cutoff(truth, &random);
      const Relaxation::Cheapest cheapest =
          relaxation.cheapest_below(allowed, prices, cutoff, kManyLabels);
      ASSERT_LE(std::min(cheapest.bound, cutoff), truth.cost);
      if (!cheapest.finished) continue;  // too many rows
      if (truth.cost >= cutoff) {
        ASSERT_TRUE(cheapest.choice.empty());
        ++none;
        continue;
      }
      ASSERT_EQ(cheapest.bound, truth.cost);
      const Evaluation value = evaluate(restricted, cheapest.choice);
      ASSERT_TRUE(value.feasible(problem.limit));
      ASSERT_EQ(value.cost, truth.cost);
      ++found;
    }
  }
  EXPECT_GT(found, 500);
  EXPECT_GT(none, 500);
  EXPECT_GT(several, 500);
}

TEST(CheapestBelowTest, TooFewLabelsAreOnlyABound) {
  const SolveOptions options;
  int stopped = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    ChoiceProblem problem = random_problem(seed);
    if (!problem.limit) continue;
    const BruteForceAnswer truth = brute_force(problem);
    Budget budget(options);
    Relaxation relaxation(problem, Goal::kCost, &budget);
    const Allowed allowed(relaxation.index().total(), 1);
    const Relaxation::Cheapest cheapest = relaxation.cheapest_below(
        allowed, {}, kLargestTotal, /*most_labels=*/2);
    ASSERT_LE(std::min(cheapest.bound, kLargestTotal), truth.cost);
    if (cheapest.finished) continue;
    ++stopped;
    EXPECT_TRUE(cheapest.choice.empty());
  }
  EXPECT_GT(stopped, 50);
}

}  // namespace
}  // namespace shardwright::solver::internal
