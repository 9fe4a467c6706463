#include "shardwright/solver/explain_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shardwright::solver {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(ExplainMemoryTest, RangesNearThePeak) {
  EXPECT_THAT(ranges_near_peak({}), IsEmpty());
  EXPECT_THAT(ranges_near_peak({0, 0}), IsEmpty());
  EXPECT_THAT(ranges_near_peak({5, 1, 5, 5, 4}),
              ElementsAre(PositionRange{0, 1}, PositionRange{2, 4}));
  // Within a thousandth counts, a byte less does not.
  EXPECT_THAT(ranges_near_peak({1998, 2000, 1997}),
              ElementsAre(PositionRange{0, 2}));
  EXPECT_THAT(ranges_near_peak({7, 10}, 2), ElementsAre(PositionRange{0, 2}));
}

TEST(ExplainMemoryTest, AliveNodesAreTheLargestFirst) {
  ChoiceProblem problem;
  problem.num_positions = 4;
  problem.nodes = {{"small", {{0, {{0, 4, 3}}}, {0, {{1, 2, 2}, {1, 3, 2}}}}},
                   {"avoidable", {{0, {{0, 4, 9}}}, {0, {{2, 4, 9}}}}},
                   // The small choice may not be taken.
                   {"large", {{kInfinite, {}}, {0, {{1, 2, 8}}}}},
                   {"tie", {{0, {{0, 2, 3}}}}}};
  EXPECT_THAT(alive_at(problem, 1),
              ElementsAre(AliveNode{2, 8}, AliveNode{0, 3}, AliveNode{3, 3}));
  EXPECT_THAT(alive_at(problem, 3), ElementsAre(AliveNode{1, 9}));
}

}  // namespace
}  // namespace shardwright::solver
