#include "shardwright/rules/rule.h"

#include <gmock/gmock.h>

#include "shardwright/ir/graph_testing.h"
#include "shardwright/rules/registry.h"

namespace shardwright::rules {
namespace {

using ir::add_op;
using ir::add_source;
using ir::DType;
using ir::Graph;
using ir::ValueKind;
using testing::ElementsAre;

// "batch0=4 in=16* out=32 | [batch0,in] [out,in] -> [batch0,out]", with * for
// contracted, ! for even_only, and times as "groups*2".
std::string text(const Rule& rule) {
  std::string out;
  const auto dims = [&](const std::vector<DimFactor>& list) {
    std::string inner;
    for (const DimFactor& dim : list) {
      if (!inner.empty()) inner += ",";
      if (dim.factor < 0) {
        inner += std::to_string(dim.times);
        continue;
      }
      inner += rule.factors[static_cast<std::size_t>(dim.factor)].name;
      if (dim.times > 1) inner += "*" + std::to_string(dim.times);
    }
    return "[" + inner + "] ";
  };
  for (const Factor& factor : rule.factors) {
    out += factor.name + "=" + std::to_string(factor.size) +
           (factor.contracted ? "*" : "") + (factor.even_only ? "!" : "") + " ";
  }
  out += "| ";
  for (const auto& list : rule.operands) out += dims(list);
  out += "-> ";
  for (const auto& list : rule.results) out += dims(list);
  out.pop_back();
  return out;
}

struct Case {
  Graph graph;
  std::vector<ValueId> operands;
  std::vector<std::string> args;

  Case& with(std::string arg, std::vector<std::int64_t> shape,
             DType dtype = DType::kFloat32) {
    operands.push_back(
        add_source(graph, ValueKind::kParameter, arg, std::move(shape), dtype));
    graph.values.back().requires_grad = ir::is_floating(dtype);
    args.push_back(std::move(arg));
    return *this;
  }
  std::optional<Rule> rule(std::string name, std::vector<std::int64_t> shape,
                           Json attrs = Json::object()) {
    add_op(graph, "op", std::move(name), operands, args, std::move(shape),
           std::move(attrs));
    return rule_of(graph, graph.ops.back());
  }
};

TEST(Rule, LinearContractsItsInputAndAddsTheBiasOnce) {
  const auto rule = Case()
                        .with("input", {4, 16, 8})
                        .with("weight", {32, 8})
                        .with("bias", {32})
                        .rule("aten.linear.default", {4, 16, 32});
  ASSERT_TRUE(rule);
  EXPECT_EQ(text(*rule),
            "batch0=4 batch1=16 in=8* out=32 | [batch0,batch1,in] [out,in] "
            "[out] -> [batch0,batch1,out]");
  EXPECT_THAT(rule->terms, ElementsAre(ElementsAre(0, 1), ElementsAre(2)));
}

TEST(Rule, BroadcastDimsOfSizeOneStayWhole) {
  const auto rule = Case()
                        .with("self", {8, 1, 6})
                        .with("other", {5, 6})
                        .rule("aten.add.Tensor", {8, 5, 6});
  ASSERT_TRUE(rule);
  EXPECT_EQ(text(*rule),
            "dim0=8 dim1=5 dim2=6 | [dim0,1,dim2] [dim1,dim2] -> "
            "[dim0,dim1,dim2]");
  EXPECT_TRUE(rule->linear_partial);
}

TEST(Rule, AddingANumberIsNotLinear) {
  const auto rule =
      Case()
          .with("self", {8})
          .rule("aten.add.Tensor", {8}, {{"other", 1.0}, {"alpha", 1}});
  ASSERT_TRUE(rule);
  EXPECT_FALSE(rule->linear_partial);
  EXPECT_TRUE(rule->delayed);
}

TEST(Rule, ReshapeKeepsTheLeadingBlockOfEachGroup) {
  const auto split =
      Case().with("self", {2, 12, 48}).rule("aten.view.default", {2, 12, 6, 8});
  EXPECT_EQ(text(*split),
            "dim0=2 dim1=12 dim2=6! | [dim0,dim1,dim2*8] -> "
            "[dim0,dim1,dim2,8]");
  const auto merged =
      Case().with("self", {4, 6, 5}).rule("aten.reshape.default", {24, 5});
  EXPECT_EQ(text(*merged), "dim0=4! dim1=5 | [dim0,6,dim1] -> [dim0*6,dim1]");
  const auto crossing =
      Case().with("self", {6, 4}).rule("aten.reshape.default", {8, 3});
  EXPECT_EQ(text(*crossing), "dim0=2! | [dim0*3,4] -> [dim0*4,3]");
  const auto unsqueezed =
      Case().with("self", {6, 4}).rule("aten.view.default", {1, 6, 1, 4});
  EXPECT_EQ(text(*unsqueezed),
            "dim1=6 dim3=4 | [dim1,dim3] -> [1,dim1,1,dim3]");
}

TEST(Rule, UnflattenMakesItsSizesLocal) {
  const auto rule = Case()
                        .with("self", {2, 48})
                        .rule("aten.unflatten.int", {2, 6, 8},
                              {{"dim", -1}, {"sizes", {6, 8}}});
  ASSERT_TRUE(rule);
  ASSERT_EQ(rule->attr_factors.size(), 1U);
  EXPECT_EQ(rule->attr_factors[0].first, "sizes[0]");
}

TEST(Rule, SqueezedNameIsNotSplit) {
  const auto rule = Case()
                        .with("self", {2, 1, 4})
                        .rule("aten.squeeze.dim", {2, 1, 4}, {{"dim", 0}});
  ASSERT_TRUE(rule);
  EXPECT_EQ(text(*rule), "dim2=4 | [2,1,dim2] -> [2,1,dim2]");
}

TEST(Rule, GroupedQueryHeadsMoveInBlocks) {
  const auto rule =
      Case()
          .with("query", {2, 8, 10, 4})
          .with("key", {2, 2, 12, 4})
          .with("value", {2, 2, 12, 4})
          .with("attn_mask", {1, 1, 10, 12})
          .rule("aten.scaled_dot_product_attention.default", {2, 8, 10, 4},
                {{"enable_gqa", true}, {"is_causal", false}});
  ASSERT_TRUE(rule);
  EXPECT_EQ(text(*rule),
            "batch0=2 heads=2! rows=10 | [batch0,heads*4,rows,4] "
            "[batch0,heads,12,4] [batch0,heads,12,4] [1,1,rows,12] -> "
            "[batch0,heads*4,rows,4]");
}

TEST(Rule, CausalAttentionKeepsRowsWhole) {
  const auto rule =
      Case()
          .with("query", {2, 8, 10, 4})
          .with("key", {2, 8, 10, 4})
          .with("value", {2, 8, 10, 4})
          .rule("aten.scaled_dot_product_attention.default", {2, 8, 10, 4},
                {{"is_causal", true}, {"dropout_p", 0.1}});
  ASSERT_TRUE(rule);
  EXPECT_EQ(rule->factors.size(), 2U);
  EXPECT_EQ(rule->factors[1].variant, "random");
}

TEST(Rule, CrossEntropySumsRowsAndSharesClasses) {
  const auto rule =
      Case()
          .with("self", {12, 50})
          .with("target", {12}, DType::kInt64)
          .rule("aten.cross_entropy_loss.default", {}, {{"reduction", 1}});
  ASSERT_TRUE(rule);
  EXPECT_EQ(text(*rule), "row0=12* classes=50 | [row0,classes] [row0] -> []");
  EXPECT_EQ(rule->factors[0].variant, "cross_entropy");
  EXPECT_TRUE(rule->factors[1].result_replicated);
  EXPECT_EQ(rule->variant_args["num_classes"], 50);
}

TEST(Rule, WeightedMeanOfACrossEntropyIsNotSplit) {
  const auto rule =
      Case()
          .with("self", {12, 50})
          .with("target", {12}, DType::kInt64)
          .with("weight", {50})
          .rule("aten.cross_entropy_loss.default", {}, {{"reduction", 1}});
  ASSERT_TRUE(rule);
  EXPECT_TRUE(rule->factors.empty());
}

TEST(Rule, BatchNormThatWritesBuffersKeepsChannels) {
  const auto rule =
      Case()
          .with("input", {4, 6, 5, 5})
          .with("weight", {6})
          .with("running_mean", {6})
          .with("running_var", {6})
          .rule("aten.batch_norm.default", {4, 6, 5, 5}, {{"training", true}});
  ASSERT_TRUE(rule);
  for (const Factor& factor : rule->factors) {
    EXPECT_EQ(factor.variant, "sync_batch_norm") << factor.name;
  }
  EXPECT_EQ(rule->factors.size(), 3U);
}

TEST(Rule, GroupsOfAConvolutionScaleItsAttribute) {
  const auto rule =
      Case()
          .with("input", {2, 8, 5, 5})
          .with("weight", {12, 2, 3, 3})
          .with("bias", {12})
          .rule("aten.conv2d.default", {2, 12, 3, 3}, {{"groups", 4}});
  ASSERT_TRUE(rule);
  EXPECT_EQ(text(*rule),
            "batch=2 groups=4! | [batch,groups*2,5,5] [groups*3,2,3,3] "
            "[groups*3] -> [batch,groups*3,3,3]");
  EXPECT_EQ(rule->attr_factors[0].first, "groups");
}

TEST(Rule, NeighbouringIndicesStayInPlace) {
  const auto rule = Case()
                        .with("self", {3, 7, 8, 5})
                        .with("indices[1]", {4, 1}, DType::kInt64)
                        .with("indices[2]", {6}, DType::kInt64)
                        .rule("aten.index.Tensor", {3, 4, 6, 5});
  ASSERT_TRUE(rule);
  EXPECT_EQ(text(*rule),
            "dim0=3 dim3=5 index0=4 index1=6 | [dim0,7,8,dim3] [index0,1] "
            "[index1] -> [dim0,index0,index1,dim3]");
}

TEST(Rule, WritingABufferKeepsAnOpWhole) {
  Case one;
  one.with("self", {8}).rule("aten.add.Tensor", {8}, {{"other", 1}});
  one.graph.ops.back().effect = true;
  const auto rule = rule_of(one.graph, one.graph.ops.back());
  ASSERT_TRUE(rule);
  EXPECT_TRUE(rule->factors.empty());
  EXPECT_FALSE(rule->delayed);
}

TEST(Rule, InPlaceOnABufferIsWhole) {
  Case one;
  one.with("self", {8}).rule("aten.add_.Tensor", {8}, {{"other", 1}});
  EXPECT_FALSE(rule_of(one.graph, one.graph.ops.back()));
  one.graph.ops.back().effect = true;
  const auto rule = rule_of(one.graph, one.graph.ops.back());
  ASSERT_TRUE(rule);
  EXPECT_TRUE(rule->factors.empty());
}

TEST(Rule, MeansOfHalfPrecisionKeepTheirDims) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat32}) {
    Case one;
    one.with("self", {4, 6}, dtype);
    add_op(one.graph, "op", "aten.mean.dim", one.operands, one.args, {4},
           {{"dim", {1}}});
    one.graph.values.back().dtype = dtype;
    const auto rule = rule_of(one.graph, one.graph.ops.back());
    ASSERT_TRUE(rule);
    EXPECT_EQ(rule->factors.size(), dtype == DType::kFloat32 ? 2U : 1U);
  }
}

TEST(Rule, ShapesThatDoNotFitAreRefused) {
  EXPECT_FALSE(Case()
                   .with("input", {4, 8})
                   .with("weight", {32, 9})
                   .rule("aten.linear.default", {4, 32}));
  EXPECT_FALSE(Case().with("self", {4}).rule("aten.lstm.input", {4}));
  EXPECT_FALSE(Case().with("self", {4}).rule("mine.relu.default", {4}));
}

TEST(FactorMaps, OneEntryPerOpAndNullWithoutRule) {
  Case one;
  one.with("self", {4, 6}).rule("aten.lstm.input", {4, 6});
  const Json maps = factor_maps(one.graph);
  ASSERT_EQ(maps.size(), 1U);
  EXPECT_TRUE(maps[0]["rule"].is_null());
  EXPECT_EQ(maps[0]["operands"].dump(),
            R"([[{"factor":-1,"times":4},{"factor":-1,"times":6}]])");
  const Json mlp = factor_maps(ir::testing_mlp(8, 16, 64));
  ASSERT_EQ(mlp.size(), 4U);
  EXPECT_EQ(mlp[0]["rule"], "linear");
  EXPECT_EQ(mlp[0]["factors"].size(), 3U);
  EXPECT_EQ(mlp[3]["variants"].size(), 0U);
}

TEST(Registry, NamesAreSortedAndMany) {
  const std::vector<std::string> names = ops_with_rules();
  EXPECT_GT(names.size(), 250U);
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
}

}  // namespace
}  // namespace shardwright::rules
