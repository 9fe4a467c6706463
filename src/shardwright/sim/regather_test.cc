// Copies that are gathered again in backward: how often, and what they hold.
//
// shared_2: one weight of 16 x 16 (1024 bytes) stored in halves on two ranks,
// read by a linear that does not save it (its input takes no gradient), by a
// linear and a product that save it, and through t by a product that saves the
// view.
#include <gtest/gtest.h>

#include <algorithm>

#include "shardwright/sim/replay.h"

namespace shardwright::sim {
namespace {

constexpr std::int64_t kWeight = 1024;

Json stored(const std::string& name) {
  return read_json_file(std::string(SW_SOURCE_DIR) + "/tests/cases/plans/" +
                        name + ".json")
      .value();
}

ir::Graph graph() {
  return ir::graph_from_json(stored("shared_graph")).value();
}

// The stored plan gathers for each reader; here one copy serves them all.
plan::Plan one_copy(bool regather) {
  plan::Plan plan = plan::plan_from_json(stored("shared_2")).value();
  std::vector<plan::Step> steps;
  for (plan::Step& step : plan.steps) {
    if (step.kind == plan::StepKind::kConvert) {
      if (!steps.empty()) continue;
      step.regather = regather;
    }
    for (std::string& buffer : step.in) {
      if (buffer.starts_with("w@")) buffer = "w@R";
    }
    steps.push_back(step);
  }
  plan.steps = std::move(steps);
  return plan;
}

std::int64_t gathers(const plan::Plan& plan) {
  std::int64_t count = 0;
  const auto counts = count_collectives(graph(), plan).value();
  for (const auto& item : counts) {
    EXPECT_EQ(item.kind, "all_gather");
    EXPECT_EQ(item.bytes, kWeight);
    count += item.count;
  }
  return count;
}

MemoryPoint point_at(const plan::Plan& plan, const std::string& at) {
  const MemoryTimeline timeline = replay(graph(), plan).value();
  for (const MemoryPoint& point : timeline.points) {
    if (point.at == at) return point;
  }
  ADD_FAILURE() << "no point " << at;
  return {};
}

std::int64_t level_at(const plan::Plan& plan, const std::string& at) {
  return point_at(plan, at).level;
}

std::size_t index_of(const plan::Plan& plan, const std::string& op) {
  const auto found =
      std::find_if(plan.steps.begin(), plan.steps.end(),
                   [&](const plan::Step& step) { return step.op == op; });
  EXPECT_NE(found, plan.steps.end());
  return static_cast<std::size_t>(found - plan.steps.begin());
}

TEST(RegatherTest, OncePerReaderThatSavesTheCopyOrAViewOfIt) {
  EXPECT_EQ(gathers(one_copy(false)), 1);
  EXPECT_EQ(gathers(one_copy(true)), 1 + 3);
}

TEST(RegatherTest, TheCopyIsGoneBetweenForwardAndBackward) {
  const std::string end = "forward of :square:0";
  EXPECT_EQ(level_at(one_copy(false), end),
            level_at(one_copy(true), end) + kWeight);
  // In the last saving reader's backward, the first to run, it is there again:
  // gone at its end, where the kept copy still waits for the others.
  const std::string last = "backward of :matmul:1";
  EXPECT_EQ(level_at(one_copy(false), last),
            level_at(one_copy(true), last) + kWeight);
  EXPECT_EQ(point_at(one_copy(true), last).peak,
            point_at(one_copy(false), last).peak);
}

// An identity conversion hands the same copy on.
TEST(RegatherTest, ThroughAnIdentityConversion) {
  plan::Plan plan = one_copy(true);
  plan::Step same = plan.steps.front();
  same.in = {"w@R"};
  same.out = {"w@same"};
  same.from = same.to;
  same.from_grad = same.to_grad;
  same.forward.clear();
  same.backward.clear();
  same.regather = false;
  plan.steps[index_of(plan, ":matmul:0")].in[1] = "w@same";
  plan.steps.insert(plan.steps.begin() + 1, same);
  EXPECT_EQ(gathers(plan), 1 + 3);
}

// Half of the copy, made from the copy: all lists from the source run again,
// and what is gathered after that is this copy's own.
TEST(RegatherTest, AChainStartsAtItsSource) {
  plan::Plan plan = one_copy(true);
  plan::Step half = plan.steps.front();
  half.in = {"w@R"};
  half.out = {"w@half"};
  half.from = half.to;
  half.from_grad = half.to_grad;
  half.to = half.to_grad = "[a, -]";
  half.forward = {{"slice", "a", 0, -1, "[a, -]", 0}};
  half.backward = {{"all_gather", "a", 0, -1, "[-, -]", kWeight}};
  half.regather = false;
  plan::Step whole = half;
  whole.in = {"w@half"};
  whole.out = {"w@whole"};
  std::swap(whole.from, whole.to);
  std::swap(whole.from_grad, whole.to_grad);
  std::swap(whole.forward, whole.backward);
  plan.steps[index_of(plan, ":matmul:0")].in[1] = "w@whole";
  plan.steps.insert(plan.steps.begin() + 1, {half, whole});
  // Forward: 1 and the chain's 1. Backward: the chain's gather of a gradient, 1
  // each for linear and the view's product, 2 for the product at the chain's
  // end.
  EXPECT_EQ(gathers(plan), 1 + 1 + 1 + 2 + 2);
  EXPECT_TRUE(replay(graph(), plan));
}

// The steps of a conversion speak of the view's dims: its result is kept.
TEST(RegatherTest, AConversionOfAViewIsAnOrdinaryCopy) {
  plan::Plan plan = one_copy(true);
  plan::Step half = plan.steps.front();
  half.value = ":t:0#0";
  half.in = {":t:0#0"};
  half.out = {":t:0#0@half"};
  half.from = half.to;
  half.from_grad = half.to_grad;
  half.to = half.to_grad = "[a, -]";
  half.forward = {{"slice", "a", 0, -1, "[a, -]", 0}};
  half.backward = {{"all_gather", "a", 0, -1, "[-, -]", kWeight}};
  half.regather = false;
  plan::Step whole = half;
  whole.in = half.out;
  whole.out = {":t:0#0@whole"};
  std::swap(whole.from, whole.to);
  std::swap(whole.from_grad, whole.to_grad);
  std::swap(whole.forward, whole.backward);
  const std::size_t reader = index_of(plan, ":matmul:1");
  plan.steps[reader].in[1] = ":t:0#0@whole";
  plan.steps.insert(plan.steps.begin() + static_cast<std::ptrdiff_t>(reader),
                    {half, whole});
  // The chain gathers a value and a gradient; linear and product gather again.
  EXPECT_EQ(gathers(plan), 1 + 2 + 2);
}

TEST(RegatherTest, WhatTheRuntimeRefusesIsRefused) {
  plan::Plan recomputed = one_copy(true);
  recomputed.regions = {{7, "linear", true}};
  recomputed.steps[index_of(recomputed, ":linear:1")].region = 7;
  const auto held = count_collectives(graph(), recomputed);
  ASSERT_FALSE(held);
  EXPECT_EQ(held.error().code, ErrorCode::kInvalidPlan);
  EXPECT_NE(held.error().message.find("in a recomputed region"),
            std::string::npos);
  plan::Plan gone = one_copy(false);
  plan::Step again = gone.steps.front();
  again.value = ":tanh:0#0";
  again.in = {":tanh:0#0"};
  again.out = {"again"};
  again.shape = {8, 16};
  again.from = again.from_grad = "[-, -]";
  again.to = again.to_grad = "[a, -]";
  again.forward = {{"slice", "a", 0, -1, "[a, -]", 0}};
  again.backward = {{"all_gather", "a", 0, -1, "[-, -]", 512}};
  again.regather = true;
  gone.steps.push_back(again);
  const auto lost = replay(graph(), gone);
  ASSERT_FALSE(lost);
  EXPECT_NE(lost.error().message.find("gone by then"), std::string::npos);
}

}  // namespace
}  // namespace shardwright::sim
