// validate() refuses each kind of damage; evaluate() on numbers by hand.
#include "shardwright/solver/choice_problem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardwright/base/check.h"
#include "shardwright/solver/evaluate.h"

namespace shardwright::solver {
namespace {

using testing::HasSubstr;

ChoiceProblem two_nodes() {
  ChoiceProblem problem;
  problem.num_positions = 4;
  problem.nodes = {{"a", {{1, {{0, 2, 5}, {1, 3, 7}}}, {2, {}}}},
                   {"b", {{10, {{2, 4, 1}}}, {20, {{0, 4, 2}}}}}};
  problem.edges = {{0, 1, make_edge_table(2, 2, {0, 3, kInfinite, 4})},
                   {1, 0, make_edge_table(2, 2, {100, 0, 0, 0})}};
  return problem;
}

std::string error_of(const ChoiceProblem& problem) {
  const auto result = validate(problem);
  return result ? "valid" : result.error().message;
}

TEST(ValidateTest, AcceptsAGoodProblem) {
  EXPECT_EQ(error_of(two_nodes()), "valid");
}

TEST(ValidateTest, NamesWhatIsWrong) {
  ChoiceProblem problem = two_nodes();
  problem.nodes[1].choices.clear();
  EXPECT_THAT(error_of(problem), HasSubstr("no choice"));
  EXPECT_THAT(error_of(problem), HasSubstr("node 1 'b'"));

  problem = two_nodes();
  problem.nodes[0].choices[0].intervals[1].hi = 5;
  EXPECT_THAT(error_of(problem),
              HasSubstr("expected 0 <= lo <= hi <= 4, got [1, 5) (node 0 'a', "
                        "choice 0)"));
  problem.nodes[0].choices[0].intervals[1] = {2, 1, 1};
  EXPECT_THAT(error_of(problem), HasSubstr("[2, 1)"));
  problem.nodes[0].choices[0].intervals[1] = {-1, 1, 1};
  EXPECT_THAT(error_of(problem), HasSubstr("[-1, 1)"));
  problem.nodes[0].choices[0].intervals[1] = {0, 1, -3};
  EXPECT_THAT(error_of(problem), HasSubstr("negative memory"));

  problem = two_nodes();
  problem.edges[0].b = 2;
  EXPECT_THAT(error_of(problem), HasSubstr("edge leaves the problem"));
  problem.edges[0].b = 0;
  EXPECT_THAT(error_of(problem), HasSubstr("joins a node with itself"));

  problem = two_nodes();
  problem.edges[1].table = nullptr;
  EXPECT_THAT(error_of(problem), HasSubstr("has no table (edge 1)"));

  problem = two_nodes();
  problem.nodes[0].choices.push_back({0, {}});
  EXPECT_THAT(error_of(problem), HasSubstr("expected 3 row classes"));

  problem = two_nodes();
  auto table = std::make_shared<EdgeTable>(*problem.edges[0].table);
  table->row_class[0] = 9;
  problem.edges[0].table = table;
  EXPECT_THAT(error_of(problem), HasSubstr("row class is out of range"));

  problem = two_nodes();
  table = std::make_shared<EdgeTable>(*problem.edges[0].table);
  table->cost.pop_back();
  problem.edges[0].table = table;
  EXPECT_THAT(error_of(problem), HasSubstr("costs, got 3"));

  problem = two_nodes();
  problem.limit = -1;
  EXPECT_THAT(error_of(problem), HasSubstr("limit is out of range"));

  problem = two_nodes();
  problem.nodes[0].choices[0].cost = kLargestTotal;
  EXPECT_THAT(error_of(problem), HasSubstr("more cost"));
  problem.nodes[0].choices[0].cost = 0;
  problem.nodes[0].choices[0].intervals[0].bytes = kLargestTotal;
  EXPECT_THAT(error_of(problem), HasSubstr("more memory"));
}

TEST(EvaluateTest, AddsUp) {
  const ChoiceProblem problem = two_nodes();
  const std::vector<std::int32_t> first{0, 0};
  EXPECT_EQ(evaluate(problem, first).cost, 1 + 10 + 0 + 100);
  EXPECT_EQ(memory_profile(problem, first),
            (std::vector<std::int64_t>{5, 12, 8, 1}));
  EXPECT_EQ(evaluate(problem, first).peak, 12);
  EXPECT_EQ(evaluate(problem, first).peak_position, 1);
  EXPECT_TRUE(evaluate(problem, first).feasible(12));
  EXPECT_FALSE(evaluate(problem, first).feasible(11));
  const std::vector<std::int32_t> forbidden{1, 0};
  EXPECT_EQ(evaluate(problem, forbidden).cost, kInfinite);
  EXPECT_FALSE(evaluate(problem, forbidden).feasible(std::nullopt));
  const std::vector<std::int32_t> wrong{0, 2};
  EXPECT_THROW(evaluate(problem, wrong), InternalError);
}

TEST(EdgeTableTest, EqualRowsAndColumnsShareAClass) {
  const auto table =
      make_edge_table(3, 3, {1, 1, kInfinite, 2, 2, 0, 1, 1, kInfinite});
  EXPECT_EQ(table->num_row_classes, 2);
  EXPECT_EQ(table->num_col_classes, 2);
  EXPECT_EQ(table->row_class, (std::vector<std::int32_t>{0, 1, 0}));
  EXPECT_EQ(table->at(2, 2), kInfinite);
  EXPECT_EQ(table->at(1, 2), 0);
}

}  // namespace
}  // namespace shardwright::solver
