#include "shardwright/cost/record.h"

#include <gtest/gtest.h>

namespace shardwright::cost {
namespace {

Json record_with_read(const Json& read) {
  const Json one = {{"c", 1}, {"f", Json::array()}};
  Json record = {
      {"sizes", Json::array()},           {"results", Json::array()},
      {"saved", Json::array()},           {"forward", Json::array()},
      {"backward", Json::array()},        {"gradients", Json::array()},
      {"kernels_forward", Json::array()}, {"kernels_backward", Json::array()},
      {"variants", Json::object()},       {"scalable", true}};
  record["kernels_forward"].push_back({{"name", "aten.mm"},
                                       {"class", "gemm"},
                                       {"flops", one},
                                       {"read", read},
                                       {"write", one}});
  return record;
}

TEST(RecordTest, ASumIsTheListOfItsTerms) {
  // Reads x [batch, in] and weight [out, in], 4 bytes each.
  const Json read = Json::parse(R"([{"c": 4, "f": [0, 1]},
                                    {"c": 4, "f": [2, 1]}])");
  const auto record = record_from_json(record_with_read(read), "op");
  ASSERT_TRUE(record.has_value()) << record.error().message;
  const Expr& expr = record->kernels_forward[0].bytes_read;
  EXPECT_EQ(expr.value({2, 3, 5}), 4 * 2 * 3 + 4 * 5 * 3);
}

TEST(RecordTest, RoundsUpAndCountsOnlyWhereItsConditionsHold) {
  // 2 groups of channels in blocks of 8, for more than one image.
  const Json read = Json::parse(
      R"({"c": 4, "f": [0], "up": [[1, 2, 8]], "when": [[0, 1, 2, 99]]})");
  const auto record = record_from_json(record_with_read(read), "op");
  ASSERT_TRUE(record.has_value()) << record.error().message;
  const Expr& expr = record->kernels_forward[0].bytes_read;
  EXPECT_EQ(expr.value({3, 4}), 4 * 3 * 8);
  EXPECT_EQ(expr.value({3, 5}), 4 * 3 * 16);
  EXPECT_EQ(expr.value({1, 5}), 0);
  EXPECT_EQ(expr.value({100, 5}), 0);
}

TEST(RecordTest, RefusesWhatIsNoExpression) {
  for (const char* bad : {"7", "[7]", "\"n0\"", "{\"c\": -1, \"f\": []}",
                          R"({"c": 1, "f": [], "up": [[0, 1]]})",
                          R"({"c": 1, "f": [], "up": [[0, 1, 0]]})",
                          R"({"c": 1, "f": [], "when": [[0, 1, 2, 3.5]]})"}) {
    EXPECT_FALSE(record_from_json(record_with_read(Json::parse(bad)), "op"))
        << bad;
  }
}

TEST(RecordTest, AShardOfOneElementHasItsOwnRecord) {
  const auto read_of = [](int coefficient) {
    return record_with_read({{"c", coefficient}, {"f", {0, 1}}});
  };
  Json json = read_of(4);
  json["at_one"] = {{{"factors", {0, 1}}, {"record", read_of(7)}},
                    {{"factors", {1}}, {"record", read_of(5)}}};
  const auto record = record_from_json(json, "op");
  ASSERT_TRUE(record.has_value()) << record.error().message;
  const auto read_at = [&record](const std::vector<std::int64_t>& local) {
    return record->at(local).kernels_forward[0].bytes_read.value(local);
  };
  EXPECT_EQ(read_at({2, 3}), 4 * 2 * 3);
  EXPECT_EQ(read_at({1, 3}), 4 * 3);
  EXPECT_EQ(read_at({2, 1}), 5 * 2);
  EXPECT_EQ(read_at({1, 1}), 7);
  EXPECT_TRUE(check_fits(*record, 0, 0, {2, 3}, "op"));
  EXPECT_FALSE(check_fits(*record, 0, 0, {2}, "op"));
}

TEST(RecordTest, RefusesDamagedRecordsOfSmallShards) {
  const Json plain = record_with_read({{"c", 1}, {"f", Json::array()}});
  Json nested = plain;
  nested["at_one"] = Json::array();
  for (const Json& bad :
       {Json(7), Json::array({7}),
        Json::array({{{"factors", {-1}}, {"record", plain}}}),
        Json::array({{{"factors", {0}}}}),
        Json::array({{{"factors", {0}}, {"record", nested}}})}) {
    Json json = plain;
    json["at_one"] = bad;
    EXPECT_FALSE(record_from_json(json, "op")) << bad.dump();
  }
}

TEST(RecordTest, ARecordOfAnotherOpDoesNotFit) {
  const Json read = Json::parse(R"({"c": 4, "f": [0, 2]})");
  Json json = record_with_read(read);
  json["results"] = Json::array({"i1"});
  json["gradients"] = Json::array({"g0", nullptr});
  const auto record = record_from_json(json, "op");
  ASSERT_TRUE(record.has_value()) << record.error().message;
  EXPECT_TRUE(check_fits(*record, 2, 1, {4, 4, 4}, "op"));
  EXPECT_FALSE(check_fits(*record, 2, 1, {4, 4}, "op"));  // no factor 2
  EXPECT_FALSE(check_fits(*record, 1, 1, {4, 4, 4}, "op"));
  EXPECT_FALSE(check_fits(*record, 2, 0, {4, 4, 4}, "op"));
  Json conditional = json;
  conditional["kernels_forward"][0]["read"]["when"] =
      Json::array({Json::array({5, 1, 0, 9})});
  const auto other_factor = record_from_json(conditional, "op");
  ASSERT_TRUE(other_factor.has_value()) << other_factor.error().message;
  EXPECT_FALSE(
      check_fits(*other_factor, 2, 1, {4, 4, 4}, "op"));  // no factor 5
  json["saved"] = Json::array({"i2"});
  const auto other = record_from_json(json, "op");
  EXPECT_EQ(check_fits(*other, 2, 1, {4, 4, 4}, "op").error().code,
            ErrorCode::kInvalidGraph);
}

TEST(RecordTest, SizesBeyond64BitsDoNotFit) {
  const auto fits = [](const char* size) {
    Json json = record_with_read(Json::parse(R"({"c": 1, "f": []})"));
    json["sizes"] = Json::array({Json::parse(size)});
    json["forward"] = Json::parse(R"([["alloc", 0]])");
    json["results"] = Json::array({"n0"});
    const auto record = record_from_json(json, "op");
    return record.has_value() &&
           check_fits(*record, 0, 1, {std::int64_t{1} << 40}, "op").has_value();
  };
  EXPECT_TRUE(fits(R"({"c": 4, "f": [0]})"));
  EXPECT_FALSE(fits(R"({"c": 4, "f": [0, 0]})"));
  EXPECT_FALSE(fits(R"({"c": 1e300, "f": []})"));
  EXPECT_TRUE(fits(R"({"c": 1, "f": [], "up": [[0, 16, 512]]})"));
  EXPECT_FALSE(fits(R"({"c": 1, "f": [], "up": [[0, 1000000, 512]]})"));
  EXPECT_FALSE(fits(R"({"c": 1, "f": [], "when": [[0, 1000000, 0, 9]]})"));
  EXPECT_FALSE(fits(R"({"c": 1, "f": [4294967296]})"));
}

}  // namespace
}  // namespace shardwright::cost
