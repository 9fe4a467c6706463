#include "shardwright/verify/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shardwright::verify::internal {
namespace {

mesh::DeviceMesh two_by_three() {
  mesh::DeviceMesh mesh;
  mesh.axes = {{"a", 2, Seconds(0), 0}, {"b", 3, Seconds(0), 0}};
  return mesh;
}

plan::CollectiveStep step(const std::string& kind, const std::string& axis,
                          std::int32_t dim = -1, std::int32_t to_dim = -1) {
  return {kind, axis, dim, to_dim, "", 0};
}

// "[a:b, -]" through one step, or the error.
std::string through(const std::string& from, const plan::CollectiveStep& one) {
  const mesh::DeviceMesh mesh = two_by_three();
  const auto after = after_step(*read_layout(from, 2, mesh), one, mesh);
  return after ? sharding::to_string(*after, mesh) : after.error().message;
}

TEST(VerifyLayout, EveryStepDoesWhatItsNameSays) {
  EXPECT_EQ(through("[a:b, -]", step("all_gather", "b", 0)), "[a, -]");
  EXPECT_EQ(through("[b, -] partial{a}", step("reduce_scatter", "a", 0)),
            "[b:a, -]");
  EXPECT_EQ(through("[-, -] partial{a,b}", step("all_reduce", "a")),
            "[-, -] partial{b}");
  EXPECT_EQ(through("[a:b, -]", step("all_to_all", "b", 0, 1)), "[a, b]");
  EXPECT_EQ(through("[a, -]", step("slice", "b", 1)), "[a, b]");
  EXPECT_EQ(through("[-, -] partial{b}", step("make_partial", "a")),
            "[-, -] partial{a,b}");
}

TEST(VerifyLayout, StepsThatCannotStartAreRefused) {
  using testing::HasSubstr;
  EXPECT_THAT(through("[a:b, -]", step("all_gather", "a", 0)),
              HasSubstr("not the last axis"));
  EXPECT_THAT(through("[a, -]", step("all_gather", "a", 2)),
              HasSubstr("on dim 2"));
  EXPECT_THAT(through("[a, -]", step("all_reduce", "b")),
              HasSubstr("nothing is partial"));
  EXPECT_THAT(through("[a, -]", step("slice", "a", 1)),
              HasSubstr("already uses"));
  EXPECT_THAT(through("[-, -] partial{a}", step("make_partial", "a")),
              HasSubstr("already uses"));
  EXPECT_THAT(through("[a, -]", step("all_to_all", "a", 0)),
              HasSubstr("on dim -1"));
  EXPECT_THAT(through("[a, -]", step("broadcast", "a")), HasSubstr("unknown"));
  EXPECT_THAT(through("[a, -]", step("all_gather", "c", 0)),
              HasSubstr("no axis"));
}

TEST(VerifyLayout, PartsFollowChunkPerAxis) {
  using testing::ElementsAre;
  EXPECT_THAT(parts(6, {2, 2}), ElementsAre(2, 1, 2, 1));
  EXPECT_THAT(parts(6, {4}), ElementsAre(2, 2, 2, 0));
  EXPECT_THAT(parts(5, {}), ElementsAre(5));
  const mesh::DeviceMesh mesh = two_by_three();
  // 7 over 2 is 4, over 3 more 2; 8 over 3 is 3.
  EXPECT_THAT(local_sizes({7, 8}, *read_layout("[a:b, -]", 2, mesh), mesh),
              ElementsAre(2, 8));
  EXPECT_EQ(held_bytes({7, 8}, *read_layout("[a, b]", 2, mesh), mesh, 4),
            4 * 3 * 4);
}

TEST(VerifyLayout, SpecsOfTheWrongRankAreRefused) {
  EXPECT_FALSE(read_layout("[a]", 2, two_by_three()));
  EXPECT_FALSE(read_layout("[c, -]", 2, two_by_three()));
}

}  // namespace
}  // namespace shardwright::verify::internal
