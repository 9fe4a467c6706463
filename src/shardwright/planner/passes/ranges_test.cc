#include "shardwright/planner/passes/ranges.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace shardwright::planner {
namespace {

std::set<std::int32_t> positions(const Ranges& ranges) {
  std::set<std::int32_t> out;
  for (const auto& [lo, hi] : ranges.items()) {
    for (std::int32_t p = lo; p < hi; ++p) out.insert(p);
  }
  return out;
}

TEST(RangesTest, TouchingRangesAreOne) {
  Ranges ranges;
  ranges.add(5, 6);
  ranges.add(0, 2);
  ranges.add(3, 4);
  ranges.add(9, 8);  // empty
  ASSERT_EQ(ranges.items().size(), 1U);
  EXPECT_EQ(ranges.items()[0], std::make_pair(0, 7));
}

TEST(RangesTest, DifferenceIsThatOfSets) {
  std::mt19937 random(1);
  const auto any = [&] { return static_cast<std::int32_t>(random() % 20); };
  for (int round = 0; round < 2000; ++round) {
    Ranges a;
    Ranges b;
    for (int n = 0; n < 4; ++n) {
      const std::int32_t first = any();
      a.add(first, first + any() % 5);
      const std::int32_t other = any();
      b.add(other, other + any() % 5 - 1);
    }
    std::set<std::int32_t> expected = positions(a);
    for (const std::int32_t p : positions(b)) expected.erase(p);
    EXPECT_EQ(positions(a.minus(b)), expected);
  }
}

}  // namespace
}  // namespace shardwright::planner
