// Conversions other planners are known to answer, with the numbers of their
// corrected sums: ours are never longer and never dearer.
//
// Layouts are written in their form: S0 = split by the first mesh axis, S01 =
// by both, first major. Costs with alpha = beta = 1 and elements as bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardwright/sharding/converter.h"
#include "shardwright/sharding/testing_layouts.h"

namespace shardwright::sharding {
namespace {

using mesh::CollectiveKind;
using testing::ElementsAre;
using testing_layouts::mesh_on;
using Shape = std::vector<std::int64_t>;

const Shape kShape = {64, 32, 16};

// "S01,R,R" -> [a:b, -, -]
ShardingSpec layout(const std::string& text) {
  ShardingSpec spec;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    spec.dims.emplace_back();
    for (std::size_t i = begin; i < end; ++i) {
      if (text[i] == '0' || text[i] == '1') {
        spec.dims.back().push_back(text[i] - '0');
      }
    }
    begin = end + 1;
  }
  return spec;
}

// Total of a walk through the layouts, each neighbour pair at its best.
double walk_time(Converter& converter, const std::vector<std::string>& walk,
                 const Shape& shape) {
  double total = 0;
  for (std::size_t i = 0; i + 1 < walk.size(); ++i) {
    total += converter.find(layout(walk[i]), layout(walk[i + 1]), shape, 1)
                 ->time.value;
  }
  return total;
}

TEST(ColossalCases, OneStepFromS0S1R) {
  Converter converter(mesh_on("unit", {4, 4}));
  const auto kind_of = [&](const char* from, const char* to) {
    const Conversion* found =
        converter.find(layout(from), layout(to), kShape, 1);
    EXPECT_EQ(found->steps.size(), 1U) << from << " -> " << to;
    return found->steps.at(0).kind;
  };
  for (const char* to : {"R,S1,R", "S0,R,R"}) {
    EXPECT_EQ(kind_of("S0,S1,R", to), CollectiveKind::kAllGather);
  }
  for (const char* to : {"S01,R,R", "R,S1,S0", "S0,R,S1"}) {
    EXPECT_EQ(kind_of("S0,S1,R", to), CollectiveKind::kAllToAll);
  }
  for (const char* to : {"S01,R,R", "S0,S1,R", "S0,R,S1"}) {
    EXPECT_EQ(kind_of("S0,R,R", to), CollectiveKind::kSlice);
  }
}

TEST(ColossalCases, PathRS01RToS01RR) {
  Converter converter(mesh_on("unit", {4, 4}));
  const Conversion* found =
      converter.find(layout("R,S01,R"), layout("S01,R,R"), kShape, 1);
  EXPECT_LE(found->steps.size(), 3U);
  // Their corrected sums: forward 4710.101, backward 9318.101, although they
  // price a gather by its shard. Ours: three exchanges of a shard.
  EXPECT_DOUBLE_EQ(found->time.value, 3 * (3 + 0.75 * 2048));
  EXPECT_LE(found->time.value, 4710.101);
  EXPECT_LT(
      found->time.value,
      walk_time(converter, {"R,S01,R", "R,S0,R", "S0,R,R", "S01,R,R"}, kShape));
}

TEST(ColossalCases, RowsForColumnsOnFourRanks) {
  const DeviceMesh mesh = mesh_on("unit", {2, 2});
  Converter converter(mesh);
  const ShardingSpec columns = layout("R,S01,R");
  const ShardingSpec rows = layout("S01,R,R");
  EXPECT_EQ(converter.find(columns, rows, kShape, 4)->time,
            converter.find(rows, columns, kShape, 4)->time);
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    const Shape at = mesh::coordinate_of(mesh, rank);
    EXPECT_EQ(local_ranges(kShape, columns, mesh, at)[1],
              (LocalRange{8 * rank, 8}));
    EXPECT_EQ(local_ranges(kShape, rows, mesh, at)[0],
              (LocalRange{16 * rank, 16}));
  }
}

TEST(ColossalCases, OtherPathsAreNeverDearer) {
  Converter converter(mesh_on("unit", {2, 4}));
  const std::vector<std::vector<std::string>> walks = {
      {"S0,S1,R", "R,S1,R", "S1,R,R", "S1,S0,R"},
      {"S0,R,R", "R,R,R", "S1,R,R"},
      {"S01,R,R", "S0,R,R", "R,R,S0", "R,R,S01"},
      {"S01,R,R", "S0,R,R", "R,R,R"},
      {"R,R,R", "S0,R,R", "S01,R,R"},
      {"S0,R,S1", "R,S0,S1", "R,S01,R"},
      {"R,S01,R", "R,S0,R", "S0,R,R", "S0,S1,R"},
      {"S1,R,R", "R,R,R", "S0,R,R", "S01,R,R"},
      {"S01,R,R", "S0,R,R", "R,R,R", "S1,R,R"},
  };
  for (const auto& walk : walks) {
    const Conversion* found =
        converter.find(layout(walk.front()), layout(walk.back()), kShape, 1);
    const double theirs = walk_time(converter, walk, kShape);
    EXPECT_LE(found->time.value, theirs);
    // More steps only where they pay: slicing first makes a gather cheaper.
    if (found->steps.size() > walk.size() - 1) {
      EXPECT_LT(found->time.value, theirs);
    }
  }
}

TEST(ColossalCases, S0RToRS0) {
  const DeviceMesh mesh = mesh_on("unit", {2, 2});
  Converter converter(mesh);
  const ShardingSpec from = layout("S0,R");
  const ShardingSpec to = layout("R,S0");
  const Conversion* found = converter.find(from, to, {4, 2}, 1);
  ASSERT_EQ(found->steps.size(), 1U);
  EXPECT_EQ(found->steps[0].kind, CollectiveKind::kAllToAll);
  EXPECT_DOUBLE_EQ(found->time.value, 1 + 0.5 * 4);  // theirs: 4.002
  // Their ranks 0 and 2 end with parts of each other, 1 and 3 likewise.
  EXPECT_THAT(mesh::group_of(mesh, 0, 0), ElementsAre(0, 2));
  EXPECT_THAT(mesh::group_of(mesh, 3, 0), ElementsAre(1, 3));
}

}  // namespace
}  // namespace shardwright::sharding
