// Copies that are gathered again in backward: how often, and what they hold.
//
// shared_2: one weight of 16 x 16 (1024 bytes) stored in halves on two ranks,
// read by a linear that does not save it (its input takes no gradient), by a
// linear and a product that save it, and through t by a product that saves the
// view.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "shardwright/plan/plan_testing.h"
#include "shardwright/sim/replay.h"

namespace shardwright::sim {
namespace {

constexpr std::int64_t kWeight = 1024;

ir::Graph graph() { return plan::stored_graph("shared_graph"); }

plan::Plan one_copy(bool regather) {
  return plan::shared_with_one_copy(regather);
}

// Conversions of a whole buffer to halves and back; `like` has the value's
// shape, and its result the buffer's layout.
std::vector<plan::Step> through_halves(const plan::Step& like,
                                       const std::string& value,
                                       const std::string& buffer) {
  plan::Step half = plan::identity_of(like, value + "@half");
  half.value = value;
  half.in = {buffer};
  half.to = half.to_grad = "[a, -]";
  half.forward = {{"slice", "a", 0, -1, "[a, -]", 0}};
  half.backward = {{"all_gather", "a", 0, -1, "[-, -]", kWeight}};
  plan::Step whole = half;
  whole.in = half.out;
  whole.out = {value + "@whole"};
  std::swap(whole.from, whole.to);
  std::swap(whole.from_grad, whole.to_grad);
  std::swap(whole.forward, whole.backward);
  return {half, whole};
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
  plan.steps[index_of(plan, ":matmul:0")].in[1] = "w@same";
  plan.steps.insert(plan.steps.begin() + 1,
                    plan::identity_of(plan.steps.front(), "w@same"));
  EXPECT_EQ(gathers(plan), 1 + 3);
}

// Half of the copy, made from the copy: all lists from the source run again,
// and what is gathered after that is this copy's own.
TEST(RegatherTest, AChainStartsAtItsSource) {
  plan::Plan plan = one_copy(true);
  const auto chain = through_halves(plan.steps.front(), "w", "w@R");
  plan.steps[index_of(plan, ":matmul:0")].in[1] = "w@whole";
  plan.steps.insert(plan.steps.begin() + 1, chain.begin(), chain.end());
  // Forward: 1 and the chain's 1. Backward: the chain's gather of a gradient, 1
  // each for linear and the view's product, 2 for the product at the chain's
  // end.
  EXPECT_EQ(gathers(plan), 1 + 1 + 1 + 2 + 2);
  EXPECT_TRUE(replay(graph(), plan));
}

// The steps of a conversion speak of the view's dims: its result is kept.
TEST(RegatherTest, AConversionOfAViewIsAnOrdinaryCopy) {
  plan::Plan plan = one_copy(true);
  const auto chain = through_halves(plan.steps.front(), ":t:0#0", ":t:0#0");
  const std::size_t reader = index_of(plan, ":matmul:1");
  plan.steps[reader].in[1] = ":t:0#0@whole";
  plan.steps.insert(plan.steps.begin() + static_cast<std::ptrdiff_t>(reader),
                    chain.begin(), chain.end());
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
