// A record whose events cannot have happened is refused, and the event named.
#include "shardwright/cost/event_order.h"

#include <gtest/gtest.h>

#include <ostream>

namespace shardwright::cost {
namespace {

// y = f(x): a scratch storage 0 and the result 1, which is kept; backward makes
// a scratch 2 and the gradient 3, then lets go of what it had.
Json possible() {
  return Json::parse(R"({
    "sizes": [{"c": 4, "f": []}, {"c": 8, "f": []}, {"c": 4, "f": []},
              {"c": 8, "f": []}],
    "results": ["n1"], "saved": ["i0", "n1"],
    "forward": [["alloc", 0], ["alloc", 1], ["free", 0],
                ["transient", {"c": 64, "f": []}]],
    "backward": [["alloc", 2], ["release", 1], ["alloc", 3], ["free", 2],
                 ["release", 0], ["drop_grad", 0]],
    "gradients": ["n3"], "gradients_in_place": [true],
    "kernels_forward": [], "kernels_backward": []
  })");
}

TEST(EventOrderTest, WhatCanHappenIsRead) {
  const auto record = record_from_json(possible(), "op");
  ASSERT_TRUE(record.has_value()) << record.error().message;
  EXPECT_EQ(internal::impossible_order(*record), std::nullopt);
}

// An op that never runs backward lets go of nothing, a view makes nothing.
TEST(EventOrderTest, NoBackwardAndViewsAreRead) {
  Json forward_only = possible();
  forward_only["backward"] = Json::array();
  forward_only["gradients"] = Json::array({nullptr});
  forward_only["sizes"] =
      Json::array({forward_only["sizes"][0], forward_only["sizes"][1]});
  EXPECT_TRUE(record_from_json(forward_only, "op"));
  Json view = forward_only;
  for (const char* list : {"sizes", "forward", "saved"}) {
    view[list] = Json::array();
  }
  view["results"] = Json::array({"i0"});
  view["gradients"] = Json::array({"g0"});
  view["backward"] = Json::array({Json::array({"drop_grad", 0})});
  EXPECT_TRUE(record_from_json(view, "op"));
}

// What takes the place of one entry of `possible`, and the message it causes.
struct Damage {
  std::string name;
  std::string key;
  std::string value;
  std::string what;
};

void PrintTo(const Damage& damage, std::ostream* out) { *out << damage.name; }

class ImpossibleOrders : public testing::TestWithParam<Damage> {};

TEST_P(ImpossibleOrders, AreRefused) {
  Json json = possible();
  json[GetParam().key] = Json::parse(GetParam().value);
  const auto record = record_from_json(json, "record of op 'f'");
  ASSERT_FALSE(record.has_value());
  EXPECT_EQ(record.error().code, ErrorCode::kInvalidGraph);
  EXPECT_NE(record.error().message.find("record of op 'f': " + GetParam().what),
            std::string::npos)
      << record.error().message;
}

INSTANTIATE_TEST_SUITE_P(
    Cost, ImpossibleOrders,
    testing::Values(
        Damage{"FreeBeforeAlloc", "forward",
               R"([["free", 0], ["alloc", 0], ["alloc", 1]])",
               "event 0 of forward, free 0: expected a storage made before in "
               "the same pass, got one that is not made yet"},
        Damage{"FreeTwice", "forward",
               R"([["alloc", 0], ["alloc", 1], ["free", 0], ["free", 0]])",
               "event 3 of forward, free 0: expected a storage made before in "
               "the same pass, got one that is freed"},
        Damage{"AllocTwice", "forward",
               R"([["alloc", 0], ["alloc", 1], ["alloc", 0]])",
               "event 2 of forward, alloc 0: expected a storage that is not "
               "made yet, got one that is there"},
        Damage{"AllocAgainInBackward", "backward",
               R"([["alloc", 1], ["alloc", 2], ["alloc", 3]])",
               "event 0 of backward, alloc 1: expected a storage that is not "
               "made yet, got one that forward made"},
        Damage{"BackwardFreesWhatForwardMade", "backward",
               R"([["alloc", 2], ["alloc", 3], ["free", 1]])",
               "event 2 of backward, free 1: expected a storage made before "
               "in the same pass, got one that forward made"},
        Damage{"ReleaseTwice", "backward",
               R"([["alloc", 2], ["alloc", 3], ["release", 1],
                   ["release", 1]])",
               "event 3 of backward, release 1: expected every saved tensor "
               "to go once, got it twice"},
        Damage{"GradientDroppedTwice", "backward",
               R"([["alloc", 2], ["alloc", 3], ["drop_grad", 0],
                   ["drop_grad", 0]])",
               "event 3 of backward, drop_grad 0: expected every incoming "
               "gradient to go once"},
        Damage{"ReleaseInForward", "forward",
               R"([["alloc", 0], ["alloc", 1], ["release", 0]])",
               "event 2 of forward, release 0: expected this in backward"},
        Damage{"ResultFreed", "forward",
               R"([["alloc", 0], ["alloc", 1], ["free", 1]])",
               "result 0 in storage 1: expected one that forward leaves, got "
               "one that is freed"},
        Damage{"ResultNotMade", "forward", R"([["alloc", 0]])",
               "result 0 in storage 1: expected one that forward leaves, got "
               "one that is not made yet"},
        Damage{"ResultOfBackward", "results", R"(["n3"])",
               "result 0 in storage 3: expected one that forward leaves"},
        Damage{"NoResult", "results", "[null]",
               "result 0: expected an operand or a new storage, got nothing"},
        Damage{"SavedFreed", "saved", R"(["n0", "n1"])",
               "saved tensor 0 in storage 0: expected one that forward "
               "leaves, got one that is freed"},
        Damage{"SavedGradient", "saved", R"(["i0", "g0"])",
               "saved tensor 1: expected an operand or a new storage, got a "
               "gradient"},
        Damage{"GradientFreed", "gradients", R"(["n2"])",
               "gradient of operand 0 in storage 2: expected one that "
               "backward leaves, got one that is freed"},
        Damage{"GradientOfForward", "gradients", R"(["n1"])",
               "gradient of operand 0 in storage 1: expected one that "
               "backward leaves, got one that forward made"},
        Damage{"GradientInAnOperand", "gradients", R"(["i0"])",
               "gradient of operand 0: expected a new storage or an incoming "
               "gradient, got an operand"},
        Damage{"NeverMade", "backward", R"([["alloc", 3]])",
               "storage 2: expected an alloc event, got none"}),
    [](const auto& tested) { return tested.param.name; });

TEST(EventOrderTest, VariantsAreLookedAtToo) {
  Json json = possible();
  json["variants"]["scaled_mean"] = possible();
  EXPECT_TRUE(record_from_json(json, "op"));
  json["variants"]["scaled_mean"]["forward"].push_back({"free", 0});
  const auto record = record_from_json(json, "op");
  ASSERT_FALSE(record.has_value());
  EXPECT_NE(record.error().message.find("variant scaled_mean: event 4"),
            std::string::npos)
      << record.error().message;
}

}  // namespace
}  // namespace shardwright::cost
