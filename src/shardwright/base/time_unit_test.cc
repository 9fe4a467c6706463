#include "shardwright/base/time_unit.h"

#include <gtest/gtest.h>

namespace shardwright {
namespace {

TEST(TimeUnitTest, CountsAndComesBack) {
  EXPECT_EQ(TimeUnit{}.count(Seconds(1e-3)), 1'000'000'000);
  const TimeUnit millionth{1'000'000};  // a microsecond
  EXPECT_EQ(millionth.count(Seconds(2.5)), 2'500'000);
  EXPECT_DOUBLE_EQ(millionth.time(2'500'000).value, 2.5);
}

}  // namespace
}  // namespace shardwright
