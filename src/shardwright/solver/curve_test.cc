#include "shardwright/solver/curve.h"

#include <gtest/gtest.h>

#include "shardwright/solver/brute_force.h"
#include "shardwright/solver/evaluate.h"
#include "shardwright/solver/random_problem.h"

namespace shardwright::solver {
namespace {

CurveOptions exact(std::int32_t num_limits = 4) {
  CurveOptions options;
  options.solve.gap = 0;
  options.num_limits = num_limits;
  return options;
}

void expect_monotone(const Curve& curve) {
  for (std::size_t n = 1; n < curve.points.size(); ++n) {
    const CurvePoint& tighter = curve.points[n - 1];
    const CurvePoint& looser = curve.points[n];
    ASSERT_TRUE(tighter.limit.has_value());
    if (looser.limit) {
      EXPECT_LT(*tighter.limit, *looser.limit);
    }
    EXPECT_GE(tighter.answer.cost, looser.answer.cost);
    EXPECT_GE(tighter.answer.bound, looser.answer.bound);
  }
}

// Every point is a plan that keeps its limit, with a bound that holds.
void expect_sound(const ChoiceProblem& problem, const Curve& curve) {
  for (const CurvePoint& point : curve.points) {
    const Evaluation value = evaluate(problem, point.answer.choice);
    EXPECT_EQ(value.cost, point.answer.cost);
    EXPECT_EQ(value.peak, point.answer.peak);
    EXPECT_TRUE(value.feasible(point.limit));
    EXPECT_LE(point.answer.bound, point.answer.cost);
  }
}

TEST(CurveTest, EqualsBruteForceAtEveryPoint) {
  int points = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    ChoiceProblem problem = random_problem(seed);
    const Curve curve = cost_curve(problem, exact());
    problem.limit.reset();
    const BruteForceAnswer free = brute_force(problem);
    ASSERT_FALSE(curve.points.empty());
    EXPECT_FALSE(curve.points.back().limit.has_value());
    if (!free.feasible) {
      ASSERT_EQ(curve.points.size(), 1u);
      EXPECT_EQ(curve.points[0].answer.status, Status::kInfeasible);
      continue;
    }
    EXPECT_EQ(curve.smallest.smallest_limit, free.smallest_limit);
    expect_sound(problem, curve);
    expect_monotone(curve);
    for (const CurvePoint& point : curve.points) {
      problem.limit = point.limit;
      const BruteForceAnswer truth = brute_force(problem);
      ASSERT_EQ(point.answer.status, Status::kOptimal);
      EXPECT_EQ(point.answer.cost, truth.cost);
      EXPECT_EQ(point.answer.bound, truth.cost);
      ++points;
    }
  }
  EXPECT_GT(points, 800);  // the curves are more than their ends
}

ChoiceProblem transformer() {
  return transformer_like({.num_layers = 2, .ops_per_layer = 6, .seed = 5});
}

TEST(CurveTest, LimitsGoFromTheSmallestTowardsTheFreePeak) {
  const ChoiceProblem problem = transformer();
  std::vector<CurveStage::Kind> stages;
  CurveOptions options = exact(5);
  options.solve.gap = 1e-2;
  options.begins = [&](const CurveStage& stage) {
    stages.push_back(stage.kind);
  };
  const Curve curve = cost_curve(problem, options);
  ASSERT_EQ(curve.points.size(), 6u);
  EXPECT_EQ(curve.points[0].limit, curve.smallest.smallest_limit);
  const std::int64_t peak = curve.points.back().answer.peak;
  EXPECT_LT(*curve.points[4].limit, peak);
  EXPECT_GT(*curve.points[4].limit, peak - peak / 4);
  EXPECT_EQ(stages.size(), 7u);
  EXPECT_EQ(stages.front(), CurveStage::Kind::kFree);
  EXPECT_EQ(stages.back(), CurveStage::Kind::kLimit);
  expect_sound(problem, curve);
  expect_monotone(curve);
}

// What the first points leave unproven does not break the promises.
TEST(CurveTest, StaysSoundWhenWorkRunsOut) {
  const ChoiceProblem problem = transformer();
  for (const std::int64_t ticks : {20'000, 200'000, 2'000'000, 20'000'000}) {
    SCOPED_TRACE(ticks);
    CurveOptions options = exact(3);
    options.solve.tick_limit = ticks;
    const Curve curve = cost_curve(problem, options);
    if (curve.points.back().answer.choice.empty()) continue;
    expect_sound(problem, curve);
    expect_monotone(curve);
  }
}

TEST(CurveTest, JsonHasAllPoints) {
  // Kept it costs 8 and peaks at 16, computed again 11 and 12.
  ChoiceProblem problem;
  problem.num_positions = 8;
  problem.nodes = {{"tensor", {{8, {{0, 7, 4}}}, {11, {{0, 2, 4}, {4, 7, 4}}}}},
                   {"big", {{0, {{3, 4, 12}}}}}};
  const Json json = curve_to_json(cost_curve(problem, exact(2)));
  EXPECT_EQ(json["smallest_limit"], 12);
  EXPECT_EQ(json["smallest_limit_bound"], 12);
  ASSERT_EQ(json["points"].size(), 3u);
  const std::vector<Json> limits = {12, 14, nullptr};
  const std::vector<int> costs = {11, 11, 8};
  for (std::size_t n = 0; n < 3; ++n) {
    const Json& point = json["points"][n];
    EXPECT_EQ(point["limit"], limits[n]);
    EXPECT_EQ(point["cost"], costs[n]);
    EXPECT_EQ(point["bound"], costs[n]);
    EXPECT_EQ(point["status"], "optimal");
    EXPECT_EQ(point["choice"].size(), 2u);
  }
}

}  // namespace
}  // namespace shardwright::solver
