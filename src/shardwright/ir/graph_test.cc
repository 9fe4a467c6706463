#include "shardwright/ir/graph.h"

#include <gtest/gtest.h>

#include "shardwright/ir/graph_testing.h"

namespace shardwright::ir {
namespace {

TEST(Graph, JsonRoundTripKeepsHash) {
  const Graph graph = testing_mlp(8, 4, 16);
  ASSERT_TRUE(verify_graph(graph).has_value())
      << verify_graph(graph).error().message;
  const auto again = graph_from_json(graph_to_json(graph));
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_EQ(graph_hash(*again), graph_hash(graph));
  EXPECT_EQ(graph_to_text(*again), graph_to_text(graph));
}

TEST(Graph, HashSeesAttributesNotRecords) {
  Graph graph = testing_mlp(8, 4, 16);
  const std::string before = graph_hash(graph);
  graph.records.push_back(Json::object());
  graph.ops[0].record = 0;
  EXPECT_EQ(graph_hash(graph), before);
  graph.ops[1].attrs["extra"] = 1;
  EXPECT_NE(graph_hash(graph), before);
}

TEST(Graph, VerifyNamesTheFault) {
  Graph graph = testing_mlp(8, 4, 16);
  graph.ops[1].operands[0] = graph.ops[2].results[0];
  const auto result = verify_graph(graph);
  ASSERT_FALSE(result.has_value());
  EXPECT_NE(result.error().message.find("before it is produced"),
            std::string::npos);
}

TEST(Graph, SizesBeyond64BitsAreRefused) {
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{kLargestValueBytes},
        {std::int64_t{1} << 40, std::int64_t{1} << 40},
        {0, std::int64_t{1} << 40, std::int64_t{1} << 40}}) {
    Graph graph = testing_mlp(8, 4, 16);
    graph.values[0].shape = shape;
    const auto result = verify_graph(graph);
    ASSERT_FALSE(result.has_value());
    EXPECT_NE(result.error().message.find("is too large"), std::string::npos);
  }
}

TEST(Graph, NewerVersionIsRefused) {
  Json json = graph_to_json(testing_mlp(8, 4, 16));
  json["version"] = 2;
  EXPECT_EQ(graph_from_json(json).error().code, ErrorCode::kVersionMismatch);
}

TEST(Op, Names) {
  Op op;
  op.name = "aten.add.Tensor";
  EXPECT_EQ(op.base_name(), "add");
}

}  // namespace
}  // namespace shardwright::ir
