// 100,000 small problems against brute force, with everything on and with each
// technique off in turn; a failure is shrunk and written as a case file. And,
// when SHARDWRIGHT_SECOND_OPINION names a folder, the problems and answers that
// a MILP solver looks at again (python/tests/equivalence).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <exception>
#include <filesystem>

#include "shardwright/base/json.h"
#include "shardwright/solver/brute_force.h"
#include "shardwright/solver/evaluate.h"
#include "shardwright/solver/mps.h"
#include "shardwright/solver/problem_json.h"
#include "shardwright/solver/random_problem.h"
#include "shardwright/solver/shrink_problem.h"
#include "shardwright/solver/solve.h"

namespace shardwright::solver {
namespace {

struct Variant {
  std::string name;
  SolveOptions options;
};

std::vector<Variant> all_variants() {
  using Switch = bool SolveOptions::*;
  constexpr std::pair<const char*, Switch> kSwitches[] = {
      {"arc consistency", &SolveOptions::use_arc_consistency},
      {"folding", &SolveOptions::use_folding},
      {"contraction", &SolveOptions::use_contraction},
      {"separable edges", &SolveOptions::use_separable_edges},
      {"parallel edges", &SolveOptions::use_parallel_edges},
      {"dominance", &SolveOptions::use_dominance},
      {"positions", &SolveOptions::use_positions},
      {"sharing", &SolveOptions::use_sharing},
      {"recombination", &SolveOptions::use_recombination},
      {"neighbourhoods", &SolveOptions::use_neighbourhoods},
      {"reduced costs", &SolveOptions::use_reduced_costs},
      {"labels", &SolveOptions::use_labels}};
  SolveOptions exact;
  exact.gap = 0;
  std::vector<Variant> out = {{"all on", exact}};
  SolveOptions nothing = exact;
  for (const auto& [name, member] : kSwitches) {
    out.push_back({std::string(name) + " off", exact});
    out.back().options.*member = false;
    nothing.*member = false;
  }
  out.push_back({"all off", nothing});
  // Nearly every node is split: bounds by dual ascent.
  out.push_back({"tables of two cells", exact});
  out.back().options.table_cells = 2;
  out.push_back({"all off, tables of two cells", nothing});
  out.back().options.table_cells = 2;
  return out;
}

// What is wrong with the answer; empty: nothing.
std::string difference(const ChoiceProblem& problem, const Answer& answer) {
  const BruteForceAnswer truth = brute_force(problem);
  if (!truth.feasible) {
    const std::int64_t limit = truth.smallest_limit.value_or(kInfinite);
    if (answer.status != Status::kInfeasible) {
      return fmt::format("infeasible, got {}", to_string(answer.status));
    }
    if (answer.smallest_limit != limit ||
        answer.smallest_limit_bound != limit) {
      return fmt::format("expected a smallest limit of {}, got {}, bound {}",
                         limit, answer.smallest_limit,
                         answer.smallest_limit_bound);
    }
    return answer.choice.empty() ? "" : "infeasible, but a choice is given";
  }
  if (answer.status != Status::kOptimal || answer.cost != truth.cost ||
      answer.bound != truth.cost) {
    return fmt::format("expected cost {}, got {} with cost {}, bound {}",
                       truth.cost, to_string(answer.status), answer.cost,
                       answer.bound);
  }
  const Evaluation value = evaluate(problem, answer.choice);
  if (!value.feasible(problem.limit) || value.cost != answer.cost ||
      value.peak != answer.peak) {
    return fmt::format(
        "the choice costs {} at a peak of {}, the answer says "
        "{} and {}",
        value.cost, value.peak, answer.cost, answer.peak);
  }
  return "";
}

std::string failure_of(const ChoiceProblem& problem,
                       const SolveOptions& options) {
  try {
    return difference(problem, solve(problem, options));
  } catch (const std::exception& error) {
    return error.what();
  }
}

void report(const ChoiceProblem& problem, const Variant& variant,
            std::uint64_t seed) {
  const ChoiceProblem small =
      shrink_problem(problem, [&](const ChoiceProblem& smaller) {
        return !failure_of(smaller, variant.options).empty();
      });
  const std::string path =
      fmt::format("{}solve_{}.json", testing::TempDir(), seed);
  const bool written =
      write_text_file(path, problem_to_json(small).dump() + "\n").has_value();
  ADD_FAILURE() << "seed " << seed << ", " << variant.name << ": "
                << failure_of(small, variant.options) << "\n"
                << (written ? "shrunk to " + path +
                                  "; keep it in tests/cases/solver"
                            : problem_to_json(small).dump());
}

// Random problems, and of these a third with a limit right where it begins to
// be possible to keep it.
ChoiceProblem problem_of(std::uint64_t seed) {
  ChoiceProblem problem = random_problem_with_forbidden(seed);
  if (seed % 3 != 0) return problem;
  const BruteForceAnswer truth = brute_force(problem);
  if (!truth.smallest_limit) return problem;
  TestRandom random(seed);
  problem.limit =
      std::max<std::int64_t>(0, *truth.smallest_limit - 1 + random.below(5));
  return problem;
}

constexpr int kNumParts = 20;
constexpr std::uint64_t kProblemsPerPart = 5000;

class SolveSlowTest : public testing::TestWithParam<int> {};

TEST_P(SolveSlowTest, EqualsBruteForce) {
  const std::vector<Variant> variants = all_variants();
  const auto first = static_cast<std::uint64_t>(GetParam()) * kProblemsPerPart;
  int failures = 0;
  for (std::uint64_t seed = first; seed < first + kProblemsPerPart; ++seed) {
    const ChoiceProblem problem = problem_of(seed);
    ASSERT_TRUE(validate(problem)) << validate(problem).error().message;
    const std::size_t turn = 1 + seed % (variants.size() - 1);
    for (const std::size_t n : {std::size_t{0}, turn}) {
      if (failure_of(problem, variants[n].options).empty()) continue;
      report(problem, variants[n], seed);
      if (++failures == 3) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Parts, SolveSlowTest, testing::Range(0, kNumParts));

// Ticks, not time: the same answers on every machine. Not all of these small
// but tight problems are closed by then; bounds are then looked at.
SolveOptions a_few_ticks() {
  SolveOptions options;
  options.gap = 0;
  options.tick_limit = 8'000'000;
  options.explain_infeasible = false;
  return options;
}

// A problem the MILP solver gets: between the smallest limit and the peak of
// the best choice without one, whose cost goes to `free_cost`.
ChoiceProblem middle_problem(std::uint64_t seed, std::int64_t* free_cost) {
  ChoiceProblem problem = random_middle_problem(seed);
  const Answer least = smallest_limit(problem, a_few_ticks());
  const Answer free = solve(problem, a_few_ticks());
  *free_cost = free.cost;
  problem.limit = 1;
  if (least.choice.empty() || free.choice.empty()) return problem;
  TestRandom random(seed);
  const std::int64_t span =
      std::max<std::int64_t>(0, free.peak - least.smallest_limit);
  problem.limit = least.smallest_limit + span * random.below(10) / 10;
  // One in eleven is just too small.
  if (random.below(11) == 0) problem.limit = least.smallest_limit_bound - 1;
  return problem;
}

TEST(SecondOpinionTest, WritesProblemsAndAnswers) {
  const char* const folder = std::getenv("SHARDWRIGHT_SECOND_OPINION");
  if (folder == nullptr) {
    GTEST_SKIP() << "NOT TESTED: SHARDWRIGHT_SECOND_OPINION names no folder; "
                    "python/tests/equivalence/test_second_opinion.py does";
  }
  constexpr std::uint64_t kNumProblems = 330;
  for (std::uint64_t seed = 0; seed < kNumProblems; ++seed) {
    std::int64_t free_cost = 0;
    const ChoiceProblem problem = middle_problem(seed, &free_cost);

    const Answer answer = solve(problem, a_few_ticks());
    const Json json = {{"status", to_string(answer.status)},
                       {"cost", answer.cost},
                       {"bound", answer.bound},
                       {"free_cost", free_cost},
                       {"choice", answer.choice},
                       {"peak", answer.peak},
                       {"problem", problem_to_json(problem)}};
    const std::string path =
        (std::filesystem::path(folder) / std::to_string(seed)).string();
    ASSERT_TRUE(write_text_file(path + ".mps", to_mps(problem)));
    ASSERT_TRUE(write_text_file(path + ".json", json.dump()));
  }
}

}  // namespace
}  // namespace shardwright::solver
