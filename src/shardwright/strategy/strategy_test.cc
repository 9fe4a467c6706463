#include "shardwright/strategy/strategy.h"

#include <gmock/gmock.h>

#include "shardwright/ir/graph_testing.h"

namespace shardwright::strategy {
namespace {

using ir::add_op;
using ir::add_source;
using ir::DType;
using ir::Graph;
using ir::ValueKind;

mesh::DeviceMesh mesh_of(std::vector<std::int64_t> sizes) {
  mesh::DeviceMesh mesh;
  for (std::size_t a = 0; a < sizes.size(); ++a) {
    mesh::MeshAxis axis;
    axis.name = std::string(1, static_cast<char>('a' + a));
    axis.size = sizes[a];
    mesh.axes.push_back(axis);
  }
  return mesh;
}

StrategySet strategies(const Graph& graph, std::size_t op,
                       const mesh::DeviceMesh& mesh) {
  const ir::Op& node = graph.ops[op];
  return enumerate_strategies(graph, node, rules::rule_of(graph, node), mesh);
}

const Strategy* find(const StrategySet& set, const std::string& text) {
  for (const Strategy& strategy : set.strategies) {
    if (strategy.text == text) return &strategy;
  }
  return nullptr;
}

// "S0,D S0,R -> S0,S1"
std::string ports(const Strategy* strategy) {
  if (strategy == nullptr) return "no such strategy";
  std::string out;
  for (const auto& port : strategy->operands) out += to_string(port) + " ";
  out += "->";
  for (const auto& port : strategy->results) out += " " + to_string(port);
  return out;
}

TEST(Strategy, LinearOnTwoAxesHasSixteen) {
  const Graph graph = ir::testing_mlp(8, 16, 32);
  const StrategySet set = strategies(graph, 0, mesh_of({2, 2}));
  EXPECT_TRUE(set.has_rule);
  EXPECT_EQ(set.strategies.size(), 16U);
  EXPECT_EQ(set.strategies.front().text, "replicate");
  // The batch x needs no gradient: R where a parameter has D.
  EXPECT_EQ(ports(find(set, "a -> batch0, b -> out")), "S0,R D,S0 -> S0,S1");
  EXPECT_EQ(ports(find(set, "a -> batch0, b -> in")), "S0,S1 D,S1 -> S0,P");
  EXPECT_EQ(ports(find(set, "a -> batch0, b -> batch0")), "S0,S0 D,D -> S0,S0");
  EXPECT_EQ(find(set, "a -> out, b -> out")->local_factors,
            (std::vector<std::int64_t>{8, 16, 8}));
}

TEST(Strategy, ReluHasNoPartialAndNoDelay) {
  const Graph graph = ir::testing_mlp(8, 16, 32);
  const StrategySet set = strategies(graph, 1, mesh_of({2}));
  ASSERT_EQ(set.strategies.size(), 3U);
  EXPECT_EQ(find(set, "a -> partial"), nullptr);
}

TEST(Strategy, BiasComesFromOneRankWithOrWithoutGradient) {
  for (const ValueKind kind : {ValueKind::kParameter, ValueKind::kBuffer}) {
    Graph graph;
    const ValueId x = add_source(graph, ValueKind::kParameter, "x", {4, 8});
    const ValueId w = add_source(graph, ValueKind::kParameter, "w", {6, 8});
    const ValueId b = add_source(graph, kind, "b", {6});
    add_op(graph, "op", "aten.linear.default", {x, w, b},
           {"input", "weight", "bias"}, {4, 6});
    const StrategySet set = strategies(graph, 0, mesh_of({2}));
    EXPECT_EQ(ports(find(set, "a -> in")), "S1 S1 P -> P");
  }
}

TEST(Strategy, AddPassesSumsAndDelayedGradients) {
  Graph graph;
  const ValueId x = add_source(graph, ValueKind::kParameter, "x", {4, 8});
  const ValueId y = add_source(graph, ValueKind::kParameter, "y", {8});
  add_op(graph, "op", "aten.add.Tensor", {x, y}, {"self", "other"}, {4, 8});
  const StrategySet set = strategies(graph, 0, mesh_of({2, 2}));
  EXPECT_EQ(set.strategies.size(), 25U);
  EXPECT_EQ(ports(find(set, "a -> partial, b -> dim0")), "P,S0 P,D -> P,S0");
  EXPECT_EQ(ports(find(set, "a -> delayed, b -> dim1")), "D,S1 D,S0 -> D,S1");
}

TEST(Strategy, OneTensorReadTwiceHasOneLayout) {
  Graph graph;
  const ValueId x = add_source(graph, ValueKind::kParameter, "x", {8, 8});
  add_op(graph, "op", "aten.mm.default", {x, x}, {"self", "mat2"}, {8, 8});
  const StrategySet set = strategies(graph, 0, mesh_of({2}));
  ASSERT_EQ(set.strategies.size(), 1U);
  EXPECT_EQ(set.strategies[0].text, "replicate");
}

TEST(Strategy, BlocksSplitEvenlyAndNoRankIsEmpty) {
  Graph graph;
  const ValueId x = add_source(graph, ValueKind::kParameter, "x", {6, 5});
  add_op(graph, "view", "aten.view.default", {x}, {"self"}, {30});
  add_op(graph, "relu", "aten.relu.default", {x}, {"self"}, {6, 5});
  const StrategySet view = strategies(graph, 0, mesh_of({4}));
  EXPECT_EQ(find(view, "a -> dim0"), nullptr);
  EXPECT_NE(find(strategies(graph, 0, mesh_of({3})), "a -> dim0"), nullptr);
  // 6 over 4 is 2,2,2,0 and 5 over 4 is 2,2,1,0; 5 over 3 is 2,2,1.
  EXPECT_EQ(strategies(graph, 1, mesh_of({4})).strategies.size(), 1U);
  EXPECT_EQ(strategies(graph, 1, mesh_of({3})).strategies.size(), 3U);
}

TEST(Strategy, AxisOfOneRankAndOpsWithoutRuleStayWhole) {
  Graph graph = ir::testing_mlp(8, 16, 32);
  EXPECT_EQ(strategies(graph, 0, mesh_of({1, 2})).strategies.size(), 4U);
  graph.ops[1].name = "mine.relu.default";
  const StrategySet none = strategies(graph, 1, mesh_of({2, 2}));
  EXPECT_FALSE(none.has_rule);
  ASSERT_EQ(none.strategies.size(), 1U);
  EXPECT_EQ(ports(&none.strategies[0]), "R,R -> R,R");
}

TEST(Strategy, GroupsBecomeLocalAttributes) {
  Graph graph;
  const ValueId x = add_source(graph, ValueKind::kParameter, "x", {2, 8, 5, 5});
  const ValueId w = add_source(graph, ValueKind::kParameter, "w", {8, 2, 3, 3});
  add_op(graph, "conv", "aten.conv2d.default", {x, w}, {"input", "weight"},
         {2, 8, 3, 3}, {{"groups", 4}});
  const ValueId u = add_source(graph, ValueKind::kParameter, "u", {2, 48});
  add_op(graph, "unflatten", "aten.unflatten.int", {u}, {"self"}, {2, 6, 8},
         {{"dim", 1}, {"sizes", {6, 8}}});
  const StrategySet conv = strategies(graph, 0, mesh_of({2}));
  EXPECT_EQ(find(conv, "a -> groups")->local_attrs.dump(), R"({"groups":2})");
  const StrategySet unflatten = strategies(graph, 1, mesh_of({2}));
  EXPECT_EQ(find(unflatten, "a -> dim1")->local_attrs.dump(),
            R"({"sizes":[3,8]})");
  EXPECT_EQ(find(unflatten, "a -> dim0")->local_attrs.dump(), "{}");
}

TEST(Strategy, CrossEntropyListsItsCollectives) {
  Graph graph;
  const ValueId x = add_source(graph, ValueKind::kParameter, "x", {12, 50});
  const ValueId t =
      add_source(graph, ValueKind::kInput, "t", {12}, DType::kInt64);
  add_op(graph, "loss", "aten.cross_entropy_loss.default", {x, t},
         {"self", "target"}, {}, {{"reduction", 1}});
  const StrategySet set = strategies(graph, 0, mesh_of({2, 2}));
  const Strategy* both = find(set, "a -> row0, b -> classes");
  ASSERT_NE(both, nullptr);
  EXPECT_EQ(ports(both), "S0,S1 S0,R -> P,R");
  EXPECT_EQ(both->variant, "cross_entropy");
  EXPECT_EQ(both->variant_args.dump(),
            R"({"num_classes":50,"row_axes":["a"],"class_axes":["b"]})");
  using mesh::CollectiveKind;
  EXPECT_THAT(
      both->collectives,
      testing::ElementsAre(
          InternalCollective{CollectiveKind::kAllReduce, 0, Bytes(8)},
          InternalCollective{CollectiveKind::kAllReduce, 1, Bytes(6 * 4)},
          InternalCollective{CollectiveKind::kAllReduce, 1, Bytes(2 * 6 * 4)}));
}

TEST(Strategy, RandomOpsNameTheAxesThatSplitThem) {
  Graph graph;
  const ValueId x = add_source(graph, ValueKind::kParameter, "x", {4, 8});
  add_op(graph, "drop", "aten.dropout.default", {x}, {"input"}, {4, 8},
         {{"p", 0.1}, {"train", true}});
  graph.ops[0].random = true;
  const StrategySet set = strategies(graph, 0, mesh_of({2, 2}));
  EXPECT_EQ(set.strategies.size(), 9U);
  EXPECT_EQ(find(set, "replicate")->variant, "random");
  EXPECT_EQ(find(set, "replicate")->variant_args.dump(), R"({"axes":[]})");
  EXPECT_EQ(find(set, "b -> dim1")->variant_args.dump(), R"({"axes":["b"]})");
}

TEST(Strategy, MeansKeepTheGlobalCount) {
  Graph graph;
  const ValueId x = add_source(graph, ValueKind::kParameter, "x", {4, 6, 1});
  add_op(graph, "mean", "aten.mean.dim", {x}, {"self"}, {4},
         {{"dim", {1, 2}}, {"keepdim", false}});
  const StrategySet set = strategies(graph, 0, mesh_of({2}));
  const Strategy* split = find(set, "a -> reduced1");
  ASSERT_NE(split, nullptr);
  EXPECT_EQ(split->variant, "scaled_mean");
  EXPECT_EQ(split->variant_args.dump(), R"({"global_count":6,"axes":["a"]})");
  EXPECT_EQ(ports(split), "S1 -> P");
  EXPECT_EQ(find(set, "a -> dim0")->variant, "");
}

TEST(Strategy, SyncBatchNormSumsStatisticsBothWays) {
  Graph graph;
  const ValueId x = add_source(graph, ValueKind::kParameter, "x", {4, 6, 5, 5});
  const ValueId m = add_source(graph, ValueKind::kBuffer, "m", {6});
  const ValueId v = add_source(graph, ValueKind::kBuffer, "v", {6});
  add_op(graph, "bn", "aten.batch_norm.default", {x, m, v},
         {"input", "running_mean", "running_var"}, {4, 6, 5, 5},
         {{"training", true}});
  graph.ops[0].effect = true;
  const StrategySet set = strategies(graph, 0, mesh_of({2}));
  EXPECT_EQ(set.strategies.size(), 4U);  // whole, batch, two space dims
  const Strategy* batch = find(set, "a -> batch");
  ASSERT_NE(batch, nullptr);
  EXPECT_EQ(ports(batch), "S0 R R -> S0");
  ASSERT_EQ(batch->collectives.size(), 3U);
  EXPECT_EQ(batch->collectives[0].bytes, Bytes(24));
  EXPECT_TRUE(batch->collectives[2].backward);
  EXPECT_EQ(batch->collectives[2].bytes, Bytes(48));
}

}  // namespace
}  // namespace shardwright::strategy
