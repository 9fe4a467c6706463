// Answers written, read back and checked.
#include "shardwright/solver/check_solution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardwright/solver/answer_json.h"
#include "shardwright/solver/random_problem.h"
#include "shardwright/solver/solve.h"

namespace shardwright::solver {
namespace {

using testing::HasSubstr;

// A tensor is kept or recomputed around a big one (choice_problem.h).
ChoiceProblem tensor_problem(std::int64_t limit) {
  ChoiceProblem problem;
  problem.num_positions = 8;
  problem.limit = limit;
  problem.nodes = {{"tensor", {{8, {{0, 7, 4}}}, {11, {{0, 2, 4}, {4, 7, 4}}}}},
                   {"big", {{0, {{3, 4, 12}}}}}};
  return problem;
}

std::string error_of(const Json& json) {
  const Result<Solution> solution = solution_from_json(json, "file");
  if (!solution) return solution.error().message;
  const auto check = check_solution(tensor_problem(15), *solution, "file");
  return check ? "" : check.error().message;
}

TEST(CheckSolutionTest, AnswersOfTheSolverHold) {
  int checked = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const ChoiceProblem problem = random_problem(seed);
    const Answer answer = solve(problem);
    const Json json = answer_to_json(problem, answer);
    if (answer.choice.empty()) continue;
    const auto solution = solution_from_json(json, "answer");
    ASSERT_TRUE(solution.has_value()) << solution.error().message;
    const auto check = check_solution(problem, *solution, "answer");
    ASSERT_TRUE(check.has_value()) << check.error().message;
    EXPECT_TRUE(check->ok()) << "seed " << seed;
    EXPECT_EQ(check->claims.size(), 3u);
    ++checked;
  }
  EXPECT_GT(checked, 100);
}

TEST(CheckSolutionTest, BareListsClaimNothing) {
  const ChoiceProblem problem = tensor_problem(15);
  const auto keep = check_solution(problem, {{0, 0}, {}, {}, {}}, "list");
  EXPECT_FALSE(keep->ok());
  EXPECT_FALSE(keep->feasible);
  EXPECT_EQ(keep->value.peak, 16);
  const auto recompute = check_solution(
      problem, *solution_from_json(Json::array({1, 0}), "list"), "list");
  EXPECT_TRUE(recompute->ok());
  EXPECT_EQ(recompute->value.cost, 11);
  EXPECT_EQ(check_to_json(problem, *recompute)["peak_position"], 3);
}

TEST(CheckSolutionTest, FalseClaimsAreFound) {
  const ChoiceProblem problem = tensor_problem(15);
  Solution solution{.choice = {1, 0}, .cost = 11, .bound = 11, .peak = 12};
  EXPECT_TRUE(check_solution(problem, solution, "x")->ok());
  for (auto claim : {&Solution::cost, &Solution::bound, &Solution::peak}) {
    Solution wrong = solution;
    *(wrong.*claim) += 1;
    const auto check = check_solution(problem, wrong, "x");
    EXPECT_TRUE(check->feasible);
    EXPECT_FALSE(check->ok());
  }
  solution.bound = -5;
  EXPECT_TRUE(check_solution(problem, solution, "x")->ok());
}

TEST(CheckSolutionTest, WrongFilesAreRefused) {
  EXPECT_EQ(error_of(Json::array({1, 0})), "");
  EXPECT_THAT(error_of(Json::array({1})), HasSubstr("one choice per node: 2"));
  EXPECT_THAT(error_of(Json::array({2, 0})),
              HasSubstr("below 2, got 2 (node 0"));
  EXPECT_THAT(error_of(Json::array({-1, 0})), HasSubstr("got -1 (node 0)"));
  EXPECT_THAT(error_of(Json::array({0, 1.5})), HasSubstr("got 1.5 (node 1)"));
  EXPECT_THAT(error_of(Json::array({0, "1"})), HasSubstr("(node 1)"));
  EXPECT_THAT(error_of(Json("x")), HasSubstr("got string"));
  EXPECT_THAT(error_of(Json::object()), HasSubstr("without 'choice'"));
  EXPECT_THAT(error_of({{"choice", 5}}), HasSubstr("another 'choice'"));
  EXPECT_THAT(error_of({{"choice", {1, 0}}, {"cost", "11"}}),
              HasSubstr("'cost'"));
  EXPECT_THAT(error_of(parse_json("[0, 18446744073709551615]", "x").value()),
              HasSubstr("64 bits"));
}

TEST(AnswerJsonTest, SaysWhereMemoryBinds) {
  const ChoiceProblem problem = tensor_problem(15);
  const Json json = answer_to_json(problem, solve(problem));
  EXPECT_EQ(json["status"], "optimal");
  EXPECT_EQ(json["profile"]["peak"], 12);
  EXPECT_EQ(json["profile"]["ranges"], Json::array({Json::array({3, 4})}));
  EXPECT_FALSE(json.contains("smallest_limit"));
}

TEST(AnswerJsonTest, SaysWhatMakesAProblemInfeasible) {
  const ChoiceProblem problem = tensor_problem(11);
  const Json json = answer_to_json(problem, solve(problem));
  EXPECT_EQ(json["status"], "infeasible");
  EXPECT_FALSE(json.contains("cost"));
  EXPECT_EQ(json["smallest_limit"], 12);
  EXPECT_EQ(json["smallest_limit_bound"], 12);
  EXPECT_EQ(json["binding_position"], 3);
  EXPECT_EQ(json["alive"]["num_nodes"], 1);
  EXPECT_EQ(json["alive"]["nodes"][0]["name"], "big");
  EXPECT_EQ(json["alive"]["nodes"][0]["least_bytes"], 12);
}

TEST(AnswerJsonTest, NoLimitHelpsAgainstInfiniteEdges) {
  ChoiceProblem problem = tensor_problem(11);
  problem.edges = {{0, 1, make_edge_table(2, 1, {kInfinite, kInfinite})}};
  const Json json = answer_to_json(problem, solve(problem));
  EXPECT_TRUE(json["smallest_limit"].is_null());
  EXPECT_TRUE(json["smallest_limit_bound"].is_null());
  EXPECT_FALSE(json.contains("alive"));
}

}  // namespace
}  // namespace shardwright::solver
