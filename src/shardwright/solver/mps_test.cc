#include "shardwright/solver/mps.h"

#include <gtest/gtest.h>

namespace shardwright::solver {
namespace {

TEST(MpsTest, WritesTheTightForm) {
  ChoiceProblem problem;
  problem.num_positions = 3;
  problem.limit = 9;
  problem.nodes = {{"a", {{4, {{0, 2, 6}}}, {5, {}}}},
                   {"b", {{1, {{1, 3, 2}, {1, 2, 3}}}}}};
  problem.edges = {{0, 1, make_edge_table(2, 1, {kInfinite, 7})}};
  EXPECT_EQ(to_mps(problem), R"(NAME shardwright
ROWS
 N cost
 E one0
 E one1
 E row0_0
 E row0_1
 E col0_0
 L mem0
 L mem1
COLUMNS
 MARKER 'MARKER' 'INTORG'
 x0_0 cost 4
 x0_0 one0 1
 x0_0 row0_0 -1
 x0_0 mem0 6
 x0_0 mem1 6
 x0_1 cost 5
 x0_1 one0 1
 x0_1 row0_1 -1
 x1_0 cost 1
 x1_0 one1 1
 x1_0 col0_0 -1
 x1_0 mem1 5
 MARKER 'MARKER' 'INTEND'
 y0_1_0 cost 7
 y0_1_0 row0_1 1
 y0_1_0 col0_0 1
RHS
 rhs one0 1
 rhs one1 1
 rhs mem0 9
 rhs mem1 9
BOUNDS
 UP bound x0_0 1
 UP bound x0_1 1
 UP bound x1_0 1
ENDATA
)");
}

// A bound on a column that is not there is an error to other readers.
TEST(MpsTest, ForbiddenChoicesHaveNoBound) {
  ChoiceProblem problem;
  problem.nodes = {{"a", {{kInfinite, {}}, {5, {}}}}};
  const std::string text = to_mps(problem);
  EXPECT_EQ(text.find("x0_0"), std::string::npos);
  EXPECT_NE(text.find(" UP bound x0_1 1\n"), std::string::npos);
}

}  // namespace
}  // namespace shardwright::solver
