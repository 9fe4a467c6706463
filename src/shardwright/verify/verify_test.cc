// Right plans pass; every way of breaking one is found.
#include "shardwright/verify/verify.h"

#include <functional>
#include <ostream>

#include "shardwright/verify/verify_testing.h"

namespace shardwright::verify {
namespace {

using testing::IsEmpty;

struct Stored {
  std::string graph;
  std::string plan;
};

void PrintTo(const Stored& stored, std::ostream* out) { *out << stored.plan; }

class StoredPlans : public testing::TestWithParam<Stored> {};

TEST_P(StoredPlans, AreRight) {
  const ir::Graph graph = stored_graph(GetParam().graph);
  const plan::Plan plan = stored_plan(GetParam().plan);
  EXPECT_THAT(findings_of(graph, plan), IsEmpty());
  const Report report = verify_plan(graph, plan).value();
  EXPECT_TRUE(report.complete);
  EXPECT_LE(report.lowest_peak_bytes, plan.predicted.peak_bytes);
  EXPECT_GE(report.peak_bytes, plan.predicted.peak_bytes);
  // Estimates that far apart would find nothing.
  EXPECT_LE(report.peak_bytes, 2 * report.lowest_peak_bytes);
}

INSTANTIATE_TEST_SUITE_P(Verify, StoredPlans,
                         testing::Values(Stored{"mlp_graph", "mlp_2"},
                                         Stored{"mlp_graph", "mlp_2x2"},
                                         Stored{"gpt2_graph", "gpt2_2"},
                                         Stored{"gpt2_graph", "gpt2_2x2"},
                                         Stored{"gpt2_graph", "gpt2_recompute"},
                                         Stored{"norm_graph", "norm_2x2"},
                                         Stored{"gather_graph", "gather_2"},
                                         Stored{"shared_graph", "shared_2"}),
                         [](const auto& tested) { return tested.param.plan; });

// One way to break a plan, and the finding it must cause.
struct Damage {
  std::string name;
  std::string graph, plan;
  std::function<void(plan::Plan&)> make;
  std::string where, what;
};

void PrintTo(const Damage& damage, std::ostream* out) { *out << damage.name; }

class DamagedPlans : public testing::TestWithParam<Damage> {};

TEST_P(DamagedPlans, AreFound) {
  const ir::Graph graph = stored_graph(GetParam().graph);
  plan::Plan plan = stored_plan(GetParam().plan);
  GetParam().make(plan);
  EXPECT_THAT(findings_of(graph, plan),
              Reports(GetParam().where, GetParam().what));
}

plan::Step& step_at(plan::Plan& plan, std::size_t index) {
  return plan.steps.at(index);
}

std::vector<Damage> program_damages() {
  return {
      {"Hash", "mlp_graph", "mlp_2",
       [](plan::Plan& p) { p.graph_hash[0] ^= 1; }, "graph_hash",
       "another graph"},
      {"OpLeftOut", "mlp_graph", "mlp_2",
       [](plan::Plan& p) {
         // The last op, so that nothing misses its result but the loss.
         p.steps.pop_back();
       },
       "steps", "':mean:0' is never run"},
      {"OpTwice", "mlp_graph", "mlp_2",
       [](plan::Plan& p) {
         plan::Step again = step_at(p, 1);
         again.out = {"again"};
         p.steps.insert(p.steps.begin() + 2, again);
       },
       "1:relu:0", "more than once"},
      {"UnknownOp", "mlp_graph", "mlp_2",
       [](plan::Plan& p) { step_at(p, 1).op = "1:relu:7"; }, "1:relu:7",
       "the graph has no op"},
      {"ReadTooEarly", "mlp_graph", "mlp_2",
       [](plan::Plan& p) { std::swap(step_at(p, 0), step_at(p, 1)); },
       "1:relu:0", "before it exists"},
      {"BufferTwice", "mlp_graph", "mlp_2",
       [](plan::Plan& p) { step_at(p, 1).out = {"0:linear:0#0"}; }, "1:relu:0",
       "made twice"},
      {"WrongResultName", "mlp_graph", "mlp_2",
       [](plan::Plan& p) {
         step_at(p, 1).out = {"relu"};
         op_step(p, "2:linear:0").in[0] = "relu";
       },
       "1:relu:0", "is to be named '1:relu:0#0'"},
      {"WrongOperand", "mlp_graph", "mlp_2",
       [](plan::Plan& p) { step_at(p, 0).in[1] = "2.weight"; }, "0:linear:0",
       "operand 1 is '0.weight'"},
      {"MissingOperand", "mlp_graph", "mlp_2",
       [](plan::Plan& p) { step_at(p, 0).in.pop_back(); }, "0:linear:0",
       "expected 3 operands"},
      {"WrongConvertedValue", "mlp_graph", "mlp_2",
       [](plan::Plan& p) { conversion(p, "2.bias").value = "0.bias"; },
       "conversion of 0.bias", "holds '2.bias'"},
      {"WrongShape", "mlp_graph", "mlp_2",
       [](plan::Plan& p) { conversion(p, "2.bias").shape = {65}; },
       "conversion of 2.bias", "expected float32 [64], got float32 [65]"},
      {"WrongDtype", "mlp_graph", "mlp_2",
       [](plan::Plan& p) { conversion(p, "2.bias").dtype = "float64"; },
       "conversion of 2.bias", "got float64"},
      {"LossNotMade", "mlp_graph", "mlp_2",
       [](plan::Plan& p) { p.loss = "nothing"; }, "loss", "never made"},
      {"LossOfAnotherValue", "mlp_graph", "mlp_2",
       [](plan::Plan& p) { p.loss = ":square:0#0@R"; }, "loss",
       "expected ':mean:0#0'"},
      {"OutputLeftOut", "gpt2_graph", "gpt2_2",
       [](plan::Plan& p) { p.outputs.pop_back(); }, "outputs",
       "expected 2, got 1"},
      {"OutputBuffer", "gpt2_graph", "gpt2_2",
       [](plan::Plan& p) { p.outputs[1].buffer = "nothing"; }, "output 1",
       "never made"},
      {"OutputValue", "gpt2_graph", "gpt2_2",
       [](plan::Plan& p) { p.outputs[1].buffer = ":pad:0#0"; }, "output 1",
       "expected 'lm_head:linear:0#0'"},
      {"OutputSpec", "gpt2_graph", "gpt2_2",
       [](plan::Plan& p) { p.outputs[1].spec = "[a, -, -]"; }, "output 1",
       "the plan says [a, -, -]"},
  };
}

std::vector<Damage> parameter_and_region_damages() {
  return {
      {"StorageMissing", "mlp_graph", "mlp_2",
       [](plan::Plan& p) { p.parameters.pop_back(); }, "parameter 2.bias",
       "no storage spec"},
      {"StorageTwice", "mlp_graph", "mlp_2",
       [](plan::Plan& p) { p.parameters.push_back(p.parameters.back()); },
       "parameter 2.bias", "stored twice"},
      {"StorageUnknown", "mlp_graph", "mlp_2",
       [](plan::Plan& p) {
         p.parameters.push_back({"3.bias", "[-]"});
       },
       "parameter 3.bias", "no such parameter"},
      {"StorageUnread", "mlp_graph", "mlp_2",
       [](plan::Plan& p) { p.parameters[0].storage = "[z, -]"; },
       "parameter 0.weight", "z"},
      {"StorageAgainstMeshOrder", "mlp_graph", "mlp_2x2",
       [](plan::Plan& p) { p.parameters[0].storage = "[b:a, -]"; },
       "parameter 0.weight", "axes in mesh order"},
      {"StoragePartial", "mlp_graph", "mlp_2",
       [](plan::Plan& p) { p.parameters[0].storage = "[-, -] partial{a}"; },
       "parameter 0.weight", "nothing partial"},
      {"StorageUnlikeTheReader", "mlp_graph", "mlp_2",
       [](plan::Plan& p) { p.parameters[0].storage = "[-, a]"; }, "0:linear:0",
       "operand 1: expected [a, -], got [-, a]"},
      {"RegionNotContiguous", "gpt2_graph", "gpt2_2",
       [](plan::Plan& p) { p.steps.back().region = 0; }, "region 0",
       "not contiguous"},
      {"RegionNotListed", "gpt2_graph", "gpt2_2",
       [](plan::Plan& p) { p.steps.back().region = 99; }, "step", "not listed"},
      {"RegionListedTwice", "gpt2_graph", "gpt2_2",
       [](plan::Plan& p) { p.regions[1].id = 0; }, "region 0", "taken"},
      {"GatheredAgainFromNothing", "norm_graph", "norm_2x2",
       [](plan::Plan& p) { conversion(p, "5.bias").regather = true; },
       "conversion of 5.bias", "gathers nothing"},
      {"GatheredAgainFromATemporary", "mlp_graph", "mlp_2",
       [](plan::Plan& p) { conversion(p, ":square:0#0").regather = true; },
       "conversion of :square:0#0", "gone by then"},
      {"GatheredAgainInARecompute", "gpt2_graph", "gpt2_recompute",
       [](plan::Plan& p) {
         conversion(p, "transformer.h.0.ln_2.weight").regather = true;
       },
       "conversion of transformer.h.0.ln_2.weight", "itself recomputed"},
  };
}

std::vector<Damage> conversion_damages() {
  return {
      {"StepOverTheWrongAxis", "mlp_graph", "mlp_2x2",
       [](plan::Plan& p) {
         conversion(p, ":square:0#0").forward[0].axis = "a";
       },
       "conversion of :square:0#0", "not the last axis"},
      {"StepKind", "mlp_graph", "mlp_2",
       [](plan::Plan& p) {
         conversion(p, "2:linear:0#0").forward[0].kind = "all_reduce";
       },
       "conversion of 2:linear:0#0", "gives [-, -]"},
      {"StepDim", "mlp_graph", "mlp_2",
       [](plan::Plan& p) { conversion(p, "2:linear:0#0").forward[0].dim = 1; },
       "conversion of 2:linear:0#0", "lead to [-, a]"},
      {"StepAfter", "mlp_graph", "mlp_2",
       [](plan::Plan& p) {
         conversion(p, "2:linear:0#0").forward[0].after = "[-, a]";
       },
       "conversion of 2:linear:0#0", "the plan says [-, a]"},
      {"StepBytes", "mlp_graph", "mlp_2",
       [](plan::Plan& p) {
         conversion(p, "2:linear:0#0").forward[0].bytes /= 2;
       },
       "conversion of 2:linear:0#0", "moves 4096 bytes, the plan says 2048"},
      {"StepsTooFew", "mlp_graph", "mlp_2x2",
       [](plan::Plan& p) { conversion(p, ":square:0#0").forward.pop_back(); },
       "conversion of :square:0#0", "lead to [a, -], expected [-, -]"},
      {"From", "mlp_graph", "mlp_2",
       [](plan::Plan& p) { conversion(p, "2.bias").from = "[-]"; },
       "conversion of 2.bias", "converts from [-]"},
      {"To", "mlp_graph", "mlp_2",
       [](plan::Plan& p) { conversion(p, ":square:0#0").to = "[-, a]"; },
       "conversion of :square:0#0", "expected [-, a]"},
      {"BackwardSteps", "mlp_graph", "mlp_2",
       [](plan::Plan& p) { conversion(p, "2.bias").backward.clear(); },
       "conversion of 2.bias", "backward: the steps lead to [-]"},
      {"BackwardBytes", "mlp_graph", "mlp_2",
       [](plan::Plan& p) {
         conversion(p, "2:linear:0#0").backward[0].bytes += 1;
       },
       "conversion of 2:linear:0#0", "backward: a all_gather"},
      {"FromGradient", "mlp_graph", "mlp_2",
       [](plan::Plan& p) { conversion(p, "2.bias").from_grad = "[-]"; },
       "conversion of 2.bias", "gives its gradient back as [-]"},
      // The classic mistake: a gradient is taken for whole that is still a sum.
      {"GradientSumForgotten", "gpt2_graph", "gpt2_2",
       [](plan::Plan& p) {
         plan::Step& step = conversion(p, "transformer.h.0.ln_1.weight");
         step.to_grad = "[-]";
         step.backward = {{"slice", "a", 0, -1, "[a]", 0}};
       },
       "transformer.h.0.ln_1:layer_norm:0", "gives a gradient [-] partial{a}"},
      {"NoPairOfLayouts", "mlp_graph", "mlp_2",
       [](plan::Plan& p) {
         plan::Step& step = conversion(p, "2.bias");
         step.to_grad = "[a]";
         step.backward.clear();
       },
       "conversion of 2.bias", "no pair of layouts"},
      {"BackwardWithoutGradient", "gpt2_graph", "gpt2_2",
       [](plan::Plan& p) {
         conversion(p, "labels").backward = {
             {"all_gather", "a", 0, -1, "[-, -]", 1024}};
       },
       "conversion of labels", "takes no gradient"},
      {"SpecUnread", "mlp_graph", "mlp_2",
       [](plan::Plan& p) { conversion(p, "2.bias").to = "[-, -]"; },
       "conversion of 2.bias", "expected a spec of 1 dims"},
  };
}

std::vector<Damage> op_damages() {
  return {
      {"StrategyText", "mlp_graph", "mlp_2",
       [](plan::Plan& p) { op_step(p, "1:relu:0").strategy = "a -> dim7"; },
       "1:relu:0", "no factor 'dim7'"},
      {"StrategyAxis", "mlp_graph", "mlp_2",
       [](plan::Plan& p) { op_step(p, "1:relu:0").strategy = "z -> dim1"; },
       "1:relu:0", "axis that the mesh does not have"},
      {"StrategyOfAnotherSplit", "mlp_graph", "mlp_2",
       [](plan::Plan& p) { op_step(p, "1:relu:0").strategy = "a -> dim0"; },
       "1:relu:0", "operand 0: expected [a, -], got [-, a]"},
      {"SplitOfFive", "mlp_graph", "mlp_2",
       [](plan::Plan& p) { op_step(p, "1:relu:0").strategy = "a dim0"; },
       "1:relu:0", "cannot be read"},
      // A partial sum into relu would add up relus of addends.
      {"PartialIntoNonLinear", "mlp_graph", "mlp_2",
       [](plan::Plan& p) {
         plan::Step& square = op_step(p, ":square:0");
         square.in = {"2:linear:0#0"};
         square.in_specs = {"[-, -] partial{a}"};
       },
       ":square:0", "the op cannot take this partial sum"},
      {"NonLinearClaimsPartial", "mlp_graph", "mlp_2",
       [](plan::Plan& p) { op_step(p, ":square:0").strategy = "a -> partial"; },
       ":square:0", "not linear"},
      {"NonLinearClaimsDelayed", "mlp_graph", "mlp_2",
       [](plan::Plan& p) { op_step(p, ":square:0").strategy = "a -> delayed"; },
       ":square:0", "cannot take a partial gradient"},
      // The bias added on every rank: the sum would hold it twice.
      {"BiasAddedTwice", "mlp_graph", "mlp_2",
       [](plan::Plan& p) {
         plan::Step& step = conversion(p, "2.bias");
         step.to = "[-]";
         step.forward.pop_back();
         op_step(p, "2:linear:0").in_specs[2] = "[-]";
       },
       "2:linear:0", "operand 2: expected [-] partial{a}, got [-]"},
      {"InSpec", "mlp_graph", "mlp_2",
       [](plan::Plan& p) { op_step(p, "1:relu:0").in_specs[0] = "[-, -]"; },
       "1:relu:0", "the step says [-, -]"},
      {"OutSpec", "mlp_graph", "mlp_2",
       [](plan::Plan& p) { op_step(p, "1:relu:0").out_specs[0] = "[-, -]"; },
       "1:relu:0", "the plan says [-, -]"},
      {"SumTakenForWhole", "mlp_graph", "mlp_2",
       [](plan::Plan& p) { op_step(p, "2:linear:0").out_specs[0] = "[-, -]"; },
       "2:linear:0", "lies as [-, -] partial{a}"},
      {"LocalFactors", "mlp_graph", "mlp_2",
       [](plan::Plan& p) { op_step(p, "1:relu:0").local_factors[1] = 256; },
       "1:relu:0", "expected [16, 128], got [16, 256]"},
      {"LocalAttributes", "mlp_graph", "mlp_2",
       [](plan::Plan& p) { op_step(p, "1:relu:0").local_attrs["groups"] = 2; },
       "1:relu:0", "local attributes"},
      {"VariantLeftOut", "norm_graph", "norm_2x2",
       [](plan::Plan& p) {
         op_step(p, "3:dropout:0").variant.clear();
         op_step(p, "3:dropout:0").variant_args = Json::object();
       },
       "3:dropout:0", "expected 'random'"},
      // Ranks with different rows would draw equal masks.
      {"RandomAxes", "norm_graph", "norm_2x2",
       [](plan::Plan& p) {
         op_step(p, "3:dropout:0").variant_args["axes"] = Json::array();
       },
       "3:dropout:0", "special implementation"},
      {"StatisticsNotSummed", "norm_graph", "norm_2x2",
       [](plan::Plan& p) {
         op_step(p, "1:batch_norm:0").collectives_forward.pop_back();
       },
       "1:batch_norm:0", "collectives inside the op, forward"},
      {"StatisticsBackward", "norm_graph", "norm_2x2",
       [](plan::Plan& p) {
         op_step(p, "1:batch_norm:0").collectives_backward[0].bytes /= 2;
       },
       "1:batch_norm:0", "collectives inside the op, backward"},
      {"CountNotSummed", "norm_graph", "norm_2x2",
       [](plan::Plan& p) {
         op_step(p, ":cross_entropy_loss:0").collectives_forward.clear();
       },
       ":cross_entropy_loss:0", "collectives inside the op, forward"},
  };
}

std::vector<Damage> number_damages() {
  return {
      {"CollectiveCount", "gpt2_graph", "gpt2_2",
       [](plan::Plan& p) { p.collectives[0].count += 1; }, "collectives",
       "expected"},
      {"CollectiveLeftOut", "gpt2_graph", "gpt2_2",
       [](plan::Plan& p) { p.collectives.pop_back(); }, "collectives", "got 0"},
      // Recomputed steps issue theirs twice.
      {"RecomputeNotCounted", "gpt2_graph", "gpt2_recompute",
       [](plan::Plan& p) {
         for (plan::Region& region : p.regions) region.recompute = false;
       },
       "collectives", "expected"},
      {"RegatherNotCounted", "gather_graph", "gather_2",
       [](plan::Plan& p) {
         for (plan::Step& step : p.steps) step.regather = false;
       },
       "collectives", "expected"},
      {"Cost", "mlp_graph", "mlp_2",
       [](plan::Plan& p) { p.objective.cost_ps += p.objective.cost_ps / 1000; },
       "objective", "the program costs"},
      {"CostTooLow", "mlp_graph", "mlp_2",
       [](plan::Plan& p) {
         p.objective.cost_ps -= p.objective.cost_ps / 1000;
         p.objective.bound_ps = p.objective.cost_ps;
       },
       "objective", "the program costs"},
      {"BoundAboveCost", "mlp_graph", "mlp_2",
       [](plan::Plan& p) { p.objective.bound_ps = p.objective.cost_ps + 1; },
       "objective", "above the cost"},
      {"Time", "mlp_graph", "mlp_2",
       [](plan::Plan& p) { p.predicted.time_s *= 1.001; }, "predicted.time_s",
       "expected"},
      {"Communication", "mlp_graph", "mlp_2",
       [](plan::Plan& p) { p.predicted.communication_s *= 1.001; },
       "predicted.communication_s", "expected"},
      {"PeakTooLow", "mlp_graph", "mlp_2",
       [](plan::Plan& p) { p.predicted.peak_bytes -= 1000; },
       "predicted.peak_bytes", "expected between"},
      {"PeakTooHigh", "mlp_graph", "mlp_2",
       [](plan::Plan& p) { p.predicted.peak_bytes *= 2; },
       "predicted.peak_bytes", "expected between"},
      {"Parameters", "mlp_graph", "mlp_2",
       [](plan::Plan& p) { p.predicted.parameters_bytes += 4; },
       "predicted.parameters_bytes", "expected"},
      {"OptimizerState", "mlp_graph", "mlp_2",
       [](plan::Plan& p) { p.predicted.optimizer_bytes += 4; },
       "predicted.optimizer_bytes", "expected"},
      {"OptimizerOther", "mlp_graph", "mlp_2",
       [](plan::Plan& p) { p.optimizer = "sgd"; }, "predicted.optimizer_bytes",
       "expected 0"},
      {"OptimizerUnknown", "mlp_graph", "mlp_2",
       [](plan::Plan& p) { p.optimizer = "muon"; }, "optimizer",
       "unknown optimizer 'muon'"},
      {"Inputs", "mlp_graph", "mlp_2",
       [](plan::Plan& p) { p.predicted.inputs_bytes -= 4; },
       "predicted.inputs_bytes", "expected"},
      {"Gradients", "mlp_graph", "mlp_2",
       [](plan::Plan& p) { p.predicted.gradients_bytes = 0; },
       "predicted.gradients_bytes", "expected at least"},
      {"Limit", "mlp_graph", "mlp_2",
       [](plan::Plan& p) { p.memory_limit_bytes = p.predicted.peak_bytes - 1; },
       "memory_limit_bytes", "the limit is"},
  };
}

const auto kDamageName = [](const auto& tested) { return tested.param.name; };
INSTANTIATE_TEST_SUITE_P(Program, DamagedPlans,
                         testing::ValuesIn(program_damages()), kDamageName);
INSTANTIATE_TEST_SUITE_P(Lists, DamagedPlans,
                         testing::ValuesIn(parameter_and_region_damages()),
                         kDamageName);
INSTANTIATE_TEST_SUITE_P(Conversions, DamagedPlans,
                         testing::ValuesIn(conversion_damages()), kDamageName);
INSTANTIATE_TEST_SUITE_P(Ops, DamagedPlans, testing::ValuesIn(op_damages()),
                         kDamageName);
INSTANTIATE_TEST_SUITE_P(Numbers, DamagedPlans,
                         testing::ValuesIn(number_damages()), kDamageName);

TEST(Verify, ABrokenGraphIsAnError) {
  ir::Graph graph = stored_graph("mlp_graph");
  const plan::Plan plan = stored_plan("mlp_2");
  graph.ops[1].key = graph.ops[0].key;
  EXPECT_FALSE(verify_plan(graph, plan));
}

TEST(Verify, AGraphWithoutRecordsIsFound) {
  ir::Graph graph = stored_graph("mlp_graph");
  graph.records.clear();
  for (ir::Op& op : graph.ops) op.record = -1;
  EXPECT_THAT(findings_of(graph, stored_plan("mlp_2")),
              Reports("0:linear:0", "no profile record"));
}

TEST(Verify, OpsKnownAtFullSizeOnlyMayNotBeSplit) {
  ir::Graph graph = stored_graph("mlp_graph");
  graph.records[static_cast<std::size_t>(graph.ops[0].record)]["scalable"] =
      false;
  EXPECT_THAT(findings_of(graph, stored_plan("mlp_2")),
              Reports("0:linear:0", "full size only"));
}

// Running statistics may be brought up to date in a region that runs twice;
// what is computed from them may not.
TEST(Verify, ARecomputedRegionDoesNotSeeChangedState) {
  ir::Graph graph = stored_graph("norm_graph");
  plan::Plan plan = stored_plan("norm_2x2");
  plan.regions[0].recompute = true;
  const std::string seen = "depends on buffer '1.running_mean'";
  EXPECT_THAT(findings_of(graph, plan),
              testing::Not(Reports("region 0", "depends on buffer")));
  for (ir::Op& op : graph.ops) {
    if (op.attrs.contains("training")) op.attrs["training"] = false;
  }
  EXPECT_THAT(findings_of(graph, plan), Reports("region 0", seen));
}

// A part of a moving average, taken before the average changes and read after.
TEST(Verify, ACopyOfABufferDoesNotOutliveAChange) {
  EXPECT_THAT(
      findings_of(stored_graph("stale_graph"), stored_plan("stale_2x2")),
      Reports("conversion of ema", "copies a buffer that ':add_:0' changes"));
}

TEST(Verify, ReportsAsText) {
  const std::string graph = stored("mlp_graph").dump();
  Json plan = stored("mlp_2");
  const Json good =
      parse_json(verify_plan_text(graph, plan.dump()).value(), "report")
          .value();
  EXPECT_TRUE(good.at("ok").get<bool>());
  EXPECT_EQ(good.at("objective_ps").get<std::int64_t>() / 1000,
            plan.at("objective").at("cost_ps").get<std::int64_t>() / 1000);
  EXPECT_FALSE(verify_plan_text(graph, "{}"));
}

}  // namespace
}  // namespace shardwright::verify
