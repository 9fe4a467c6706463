#include "shardwright/mesh/device_mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace shardwright::mesh {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Device free_device() {
  Device device;
  device.name = "free";
  device.memory = Bytes(1);
  device.peak_flops = {{"default", 1.0}};
  device.memory_bandwidth = std::numeric_limits<double>::infinity();
  return device;
}

MeshAxis unit_axis(std::int64_t size) { return {"a", size, Seconds(1), 1.0}; }

double unit_time(CollectiveKind kind, std::int64_t size, std::int64_t bytes) {
  return collective_time(kind, unit_axis(size), Bytes(bytes)).value;
}

TEST(CollectiveTime, HandValues) {
  // ring: (n-1) + (n-1)/n N
  EXPECT_DOUBLE_EQ(unit_time(CollectiveKind::kAllGather, 4, 80), 3 + 60);
  EXPECT_DOUBLE_EQ(unit_time(CollectiveKind::kReduceScatter, 4, 80), 3 + 60);
  EXPECT_DOUBLE_EQ(unit_time(CollectiveKind::kAllToAll, 4, 80), 3 + 60);
  EXPECT_DOUBLE_EQ(unit_time(CollectiveKind::kAllReduce, 4, 80), 2 * 63);
  EXPECT_DOUBLE_EQ(unit_time(CollectiveKind::kSlice, 4, 80), 0);
  EXPECT_DOUBLE_EQ(unit_time(CollectiveKind::kMakePartial, 4, 80), 0);
}

TEST(CollectiveTime, TreeWinsOnManyRanksAndFewBytes) {
  // 64 ranks, 4 bytes: ring pair 2 * (63 + 3.9), tree 2 * 6 + 8.
  EXPECT_DOUBLE_EQ(unit_time(CollectiveKind::kAllReduce, 64, 4), 20);
  // 5 ranks need three levels; the ring pair 2 * (4 + 0.8) is cheaper.
  EXPECT_DOUBLE_EQ(unit_time(CollectiveKind::kAllReduce, 5, 1), 2 * 3 + 2);
  EXPECT_DOUBLE_EQ(unit_time(CollectiveKind::kAllReduce, 5, 5), 2 * (4 + 4));
}

TEST(CollectiveTime, OneRankIsFree) {
  for (const auto kind :
       {CollectiveKind::kAllGather, CollectiveKind::kAllReduce,
        CollectiveKind::kAllToAll}) {
    EXPECT_EQ(unit_time(kind, 1, 1000), 0);
  }
}

TEST(CollectiveTime, NoDetourIsCheaper) {
  for (const std::int64_t ranks : {2, 3, 4, 8, 9, 64, 1000}) {
    for (const std::int64_t bytes : {0, 1, 7, 100, 1 << 20}) {
      const auto time = [&](CollectiveKind kind, std::int64_t moved) {
        return unit_time(kind, ranks, moved);
      };
      const double slack = 1e-9 * static_cast<double>(bytes + 1);
      const double gather = time(CollectiveKind::kAllGather, bytes);
      const double scatter = time(CollectiveKind::kReduceScatter, bytes);
      const double reduce = time(CollectiveKind::kAllReduce, bytes);
      const double exchange = time(CollectiveKind::kAllToAll, bytes);
      EXPECT_LE(reduce, scatter + gather + slack);
      EXPECT_LE(scatter, reduce);
      EXPECT_LE(scatter, exchange);
      EXPECT_LE(exchange,
                time(CollectiveKind::kAllGather, ranks * bytes) + slack);
    }
  }
}

TEST(CollectiveKinds, NamesRoundTrip) {
  for (int i = 0; i < 6; ++i) {
    const auto kind = static_cast<CollectiveKind>(i);
    EXPECT_EQ(parse_collective_kind(to_string(kind)).value(), kind);
  }
  EXPECT_THAT(parse_collective_kind("broadcast").error().message,
              HasSubstr("got 'broadcast'"));
}

TEST(DeviceMesh, RanksAreInRowOrder) {
  const DeviceMesh mesh{{{"a", 4, {}, 0}, {"b", 4, {}, 0}}, free_device()};
  EXPECT_EQ(mesh.num_devices(), 16);
  EXPECT_THAT(coordinate_of(mesh, 5), ElementsAre(1, 1));
  EXPECT_THAT(coordinate_of(mesh, 11), ElementsAre(2, 3));
  EXPECT_THAT(group_of(mesh, 2, 1), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(group_of(mesh, 2, 0), ElementsAre(2, 6, 10, 14));
  EXPECT_EQ(mesh.axis_index("b"), 1);
  EXPECT_EQ(mesh.axis_index("c"), -1);
  EXPECT_EQ(to_string(mesh), "a=4 b=4");
}

TEST(DeviceMesh, ValidateNamesTheFault) {
  const auto message = [](std::vector<MeshAxis> axes) {
    const auto valid = validate(DeviceMesh{std::move(axes), free_device()});
    return valid ? std::string() : valid.error().message;
  };
  EXPECT_EQ(message({{"dp", 2, Seconds(1), 1}}), "");
  EXPECT_THAT(message({}), HasSubstr("expected 1 to 4, got 0"));
  EXPECT_THAT(message({{"a", 0, {}, 0}}),
              HasSubstr("a size of 1 to 65536, got 0"));
  EXPECT_THAT(message({{"a", 65536, {}, 0}, {"b", 65536, {}, 0}}),
              HasSubstr("too many devices: expected at most 65536"));
  EXPECT_THAT(message({{"a", 2, {}, 0}, {"a", 2, {}, 0}}),
              HasSubstr("two axes are named 'a'"));
  EXPECT_THAT(message({{"a:b", 2, {}, 0}}), HasSubstr("is no axis name"));
  EXPECT_THAT(message({{"a", 2, Seconds(-1), 0}}), HasSubstr("not negative"));
}

TEST(Device, CopyReadsAndWrites) {
  Device device = free_device();
  EXPECT_EQ(copy_time(device, Bytes(1000)).value, 0);
  device.memory_bandwidth = 100;
  EXPECT_DOUBLE_EQ(copy_time(device, Bytes(1000)).value, 20);
  device.efficiency["copy"] = {1.0, 0.5};
  EXPECT_DOUBLE_EQ(copy_time(device, Bytes(1000)).value, 40);
}

TEST(Device, PeakFallsBackToDefault) {
  Device device = free_device();
  device.peak_flops["bfloat16"] = 7;
  EXPECT_EQ(peak_flops(device, "bfloat16"), 7);
  EXPECT_EQ(peak_flops(device, "int64"), 1);
  EXPECT_EQ(efficiency(device, "gemm").compute, 1.0);
}

TEST(Device, ValidateNamesTheFault) {
  Device device = free_device();
  device.efficiency["gemm"] = {1.5, 1.0};
  EXPECT_THAT(validate(device).error().message, HasSubstr("efficiency.gemm"));
  device = free_device();
  device.peak_flops.erase("default");
  EXPECT_THAT(validate(device).error().message, HasSubstr("'default'"));
  device = free_device();
  device.type = "tpu";
  EXPECT_THAT(validate(device).error().message, HasSubstr("got 'tpu'"));
  device = free_device();
  device.memory_bandwidth = 0;
  EXPECT_THAT(validate(device).error().message, HasSubstr("memory_bandwidth"));
}

}  // namespace
}  // namespace shardwright::mesh
