// Counts of copies gathered again; the plan is that of sim/regather_test.cc.
#include "shardwright/verify/gathered_again.h"

#include "shardwright/verify/verify_testing.h"

namespace shardwright::verify {
namespace {

// One copy for all four readers of the weight.
plan::Plan one_copy(bool regather) {
  return plan::shared_with_one_copy(regather);
}

std::int64_t gathers(const plan::Plan& plan) {
  const auto report = verify_plan(stored_graph("shared_graph"), plan);
  EXPECT_TRUE(report.has_value());
  EXPECT_TRUE(report->complete) << to_json(*report).dump(1);
  std::int64_t count = 0;
  for (const auto& item : report->collectives) count += item.count;
  return count;
}

TEST(GatheredAgain, OncePerReaderThatSavesTheCopyOrAViewOfIt) {
  EXPECT_EQ(gathers(one_copy(false)), 1);
  EXPECT_EQ(gathers(one_copy(true)), 1 + 3);
}

TEST(GatheredAgain, ThroughAnIdentityConversion) {
  plan::Plan plan = one_copy(true);
  plan.steps.insert(plan.steps.begin() + 1,
                    plan::identity_of(plan.steps.front(), "w@same"));
  op_step(plan, ":matmul:0").in[1] = "w@same";
  EXPECT_EQ(gathers(plan), 1 + 3);
}

TEST(GatheredAgain, EveryGatherIsPaid) {
  const ir::Graph graph = stored_graph("shared_graph");
  const auto cost = [&](bool regather) {
    return verify_plan(graph, one_copy(regather))->objective_ps;
  };
  const plan::Plan plan = one_copy(true);
  const plan::CollectiveStep& gather = plan.steps.front().forward.front();
  const mesh::MeshAxis& axis = plan.mesh.axes.front();
  const Seconds one = mesh::collective_time(mesh::CollectiveKind::kAllGather,
                                            axis, Bytes(gather.bytes));
  EXPECT_EQ(cost(true) - cost(false), 3 * plan.objective.unit.count(one));
}

TEST(GatheredAgain, NotForARecomputedReader) {
  plan::Plan plan = one_copy(true);
  plan.regions = {{7, "linear", true}};
  for (plan::Step& step : plan.steps) step.region = -1;
  op_step(plan, ":linear:1").region = 7;
  EXPECT_THAT(findings_of(stored_graph("shared_graph"), plan),
              Reports("conversion of w", "itself recomputed"));
}

}  // namespace
}  // namespace shardwright::verify
