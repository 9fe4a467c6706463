// Numbers of the table in python/shardwright/runtime/collectives.py by hand.
#include "shardwright/cost/collective_memory.h"

#include <gtest/gtest.h>

namespace shardwright::cost {
namespace {

using mesh::CollectiveKind;

// [batch, heads, length, size] that lies [batch, length, heads, size].
const std::vector<std::int32_t> kHeads = {0, 2, 1, 3};

TEST(CollectiveMemory, OuterIsCountedInMemory) {
  EXPECT_TRUE(is_outer({4, 8}, 0, {}));
  EXPECT_FALSE(is_outer({4, 8}, 1, {}));
  EXPECT_TRUE(is_outer({1, 8}, 1, {}));
  EXPECT_TRUE(is_outer({1, 2, 32, 16}, 1, {}));
  EXPECT_FALSE(is_outer({1, 2, 32, 16}, 1, kHeads));
  EXPECT_TRUE(is_outer({1, 2, 32, 16}, 2, kHeads));
}

TEST(CollectiveMemory, WhatIsNotDenseIsPackedFirst) {
  CollectiveShape gather{CollectiveKind::kAllGather, 2, 100, 200};
  EXPECT_EQ(collective_transient(gather), 0);
  gather.dense = false;
  EXPECT_EQ(collective_transient(gather), 100);
  gather.dim_outer = false;  // received, then unpacked
  EXPECT_EQ(collective_transient(gather), 300);
  CollectiveShape scatter{CollectiveKind::kReduceScatter, 2, 200, 100};
  EXPECT_EQ(collective_transient(scatter), 200);
  scatter.dense = false;
  EXPECT_EQ(collective_transient(scatter), 300);
  scatter.dim_outer = false;  // packing copies anyway
  EXPECT_EQ(collective_transient(scatter), 300);
  CollectiveShape exchange{CollectiveKind::kAllToAll, 2, 200, 200};
  EXPECT_EQ(collective_transient(exchange), 0);
  exchange.dense = false;
  EXPECT_EQ(collective_transient(exchange), 200);
  for (const CollectiveKind kind :
       {CollectiveKind::kAllReduce, CollectiveKind::kSlice,
        CollectiveKind::kMakePartial}) {
    CollectiveShape plain{kind, 2, 200, 200};
    plain.dense = false;
    EXPECT_EQ(collective_transient(plain), 0);
  }
}

TEST(CollectiveMemory, OnlyTheFirstStepMeetsTheSourcesLayout) {
  mesh::DeviceMesh mesh;
  mesh.axes.resize(2);
  mesh.axes[0].size = mesh.axes[1].size = 2;
  // [8, 6] float32 split both ways: 48 bytes; whole along b 96, whole 192.
  sharding::ShardingSpec from;
  from.dims = {{0, 1}, {}};
  sharding::ShardingSpec half;
  half.dims = {{0}, {}};
  sharding::ShardingSpec whole;
  whole.dims = {{}, {}};
  std::vector<sharding::CollectiveStep> steps(2);
  steps[0].kind = steps[1].kind = CollectiveKind::kAllGather;
  steps[0].axis = 1;
  steps[1].axis = 0;
  steps[0].dim = steps[1].dim = 0;
  steps[0].after = half;
  steps[1].after = whole;
  const auto transient = [&](const MemoryLayout& layout) {
    return conversion_transient(steps, from, {8, 6}, 4, layout, mesh);
  };
  // Dim 0 outer: at the end source 48, half 96 and whole 192 are there.
  EXPECT_EQ(transient({}), 96);
  // A packed copy of the source only while half is made: below that.
  EXPECT_EQ(transient({{}, false}), 96);
  // Dim 1 outer: the last step receives the whole and unpacks it.
  EXPECT_EQ(transient({{1, 0}, true}), 96 + 192);
}

}  // namespace
}  // namespace shardwright::cost
