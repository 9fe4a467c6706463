#include "shardwright/planner/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "shardwright/base/json.h"
#include "shardwright/planner/entry.h"

namespace shardwright::planner {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string stored(const std::string& name) {
  return read_text_file(std::string(SW_SOURCE_DIR) + "/tests/cases/plans/" +
                        name + ".json")
      .value();
}

// alpha, beta and a FLOP take one nanosecond each, local copies nothing.
Json unit_cluster() {
  return {{"schema", "shardwright.cluster"},
          {"version", 1},
          {"name", "unit in nanoseconds"},
          {"device",
           {{"name", "unit"},
            {"type", "cpu"},
            {"memory_bytes", std::int64_t{1} << 60},
            {"peak_flops", {{"default", 1e9}}},
            {"memory_bandwidth", nullptr},
            {"launch_s", 0.0},
            {"efficiency", Json::object()}}},
          {"levels",
           {{{"name", "host"},
             {"size", 4},
             {"alpha_s", 1e-9},
             {"beta_s_per_byte", 1e-9}}}}};
}

// Linear(1024, 4096) -> ReLU -> Linear(4096, 1024), no biases, batch 64, sum.
class ExplainMegatron : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    graph_ = new std::string(stored("megatron_graph"));
    const Json options = {{"cluster", unit_cluster()}, {"mesh", {2, 2}}};
    plan_ = new std::string(make_plan_text(*graph_, options.dump()).value());
  }
  static void TearDownTestSuite() {
    delete graph_;
    delete plan_;
  }

  static std::string explained(const std::string& query) {
    const auto text = explain_text(*graph_, *plan_, query);
    return text ? *text : "error: " + text.error().message;
  }
  // The line that starts with `prefix`, blanks at its beginning left out.
  static std::string line(const std::string& text, const std::string& prefix) {
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      const std::size_t first =
          std::min(text.find_first_not_of(' ', begin), end);
      if (text.compare(first, prefix.size(), prefix) == 0) {
        return text.substr(first, end - first);
      }
      begin = end + 1;
    }
    return "no line '" + prefix + "' in\n" + text;
  }

  static std::string* graph_;
  static std::string* plan_;
};

std::string* ExplainMegatron::graph_ = nullptr;
std::string* ExplainMegatron::plan_ = nullptr;

// Column, then row parallel over both axes. A product of 2 * 64 * 1024 * 4096
// FLOPs is cut into four: 134.218 ms. There are five: two forward, two for the
// second layer's backward, one for the first, whose input takes no gradient.
TEST_F(ExplainMegatron, TheOverviewShowsThePair) {
  const std::string text = explained("");
  EXPECT_THAT(line(text, "0:linear:0"),
              HasSubstr("[-, -] [a:b, -] -> [-, a:b]"));
  EXPECT_THAT(line(text, "0:linear:0"), HasSubstr("a -> out, b -> out"));
  EXPECT_THAT(line(text, "2:linear:0"), HasSubstr("a -> in, b -> in"));
  EXPECT_THAT(line(text, "0:linear:0"), HasSubstr("134.218 ms"));
  EXPECT_THAT(line(text, ":sum:0#0"), HasSubstr("all_reduce"));
  EXPECT_THAT(line(text, "step time"), HasSubstr("671.089 ms"));
  EXPECT_THAT(line(text, "parameters"), HasSubstr("8.00 MiB"));
  EXPECT_THAT(line(text, "memory:"), HasSubstr("at optimizer step"));
}

TEST_F(ExplainMegatron, ThePairIsChosenAndTheOthersAreDearer) {
  const std::string first = explained("0:linear:0");
  EXPECT_THAT(line(first, "* "), HasSubstr("a -> out, b -> out"));
  EXPECT_THAT(line(first, "* "), HasSubstr("+0.00 %"));
  // Rows on both axes: weights gathered, their gradients scattered.
  const std::string rows = line(first, "a -> batch0, b -> batch0");
  EXPECT_THAT(rows, HasSubstr("697.041 ms"));
  EXPECT_THAT(rows, HasSubstr("+3.87 %"));
  EXPECT_THAT(rows, HasSubstr("-> [a:b, -]"));
  EXPECT_THAT(line(first, "then 1:relu:0"), HasSubstr("2:linear:0"));
  EXPECT_THAT(line(first, "replicate"), HasSubstr("[-, -] [-, -] -> [-, -]"));
  const std::string second = explained("2:linear:0");
  EXPECT_THAT(line(second, "* "), HasSubstr("a -> in, b -> in"));
  EXPECT_THAT(second, Not(HasSubstr("no plan found")));
}

TEST_F(ExplainMegatron, AModulePathStandsForItsOps) {
  EXPECT_EQ(explained("0"), explained("0:linear:0"));
  const std::string both = explained("*:linear:0");
  EXPECT_THAT(both, HasSubstr("0:linear:0  aten.linear.default"));
  EXPECT_THAT(both, HasSubstr("2:linear:0  aten.linear.default"));
  EXPECT_THAT(both, Not(HasSubstr("1:relu:0  aten")));
}

TEST_F(ExplainMegatron, TheLimitOfThePlanHolds) {
  Json options = {{"cluster", unit_cluster()}, {"mesh", {2, 2}}};
  options["memory_limit_bytes"] = std::int64_t{48} << 20;
  const std::string plan = make_plan_text(*graph_, options.dump()).value();
  const std::string text = explain_text(*graph_, plan, "0:linear:0").value();
  // Gathering the whole first weight takes 68.25 MiB.
  EXPECT_THAT(line(text, "a -> batch0, b -> batch0"),
              HasSubstr("over the memory limit: needs"));
}

TEST_F(ExplainMegatron, WhatDoesNotFitIsRefused) {
  EXPECT_THAT(explained("head"), HasSubstr("nothing in the model is called"));
  const auto other = explain_text(stored("mlp_graph"), *plan_, "");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ErrorCode::kInvalidPlan);
}

}  // namespace
}  // namespace shardwright::planner
