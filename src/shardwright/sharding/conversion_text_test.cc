#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardwright/sharding/converter.h"
#include "shardwright/sharding/testing_layouts.h"

namespace shardwright::sharding {
namespace {

using testing::HasSubstr;
using testing_layouts::mesh_on;
using Shape = std::vector<std::int64_t>;

Bytes peak(const DeviceMesh& mesh, const char* from, const char* to,
           const Shape& shape) {
  Converter converter(mesh);
  return converter
      .find(parse_spec(from, mesh).value(), parse_spec(to, mesh).value(), shape,
            1)
      ->peak;
}

TEST(ConversionPeak, HandValues) {
  const DeviceMesh mesh = mesh_on("unit", {4});
  EXPECT_EQ(peak(mesh, "[a, -]", "[a, -]", {8, 8}), Bytes(16));
  // Dim 0: shard and result. Dim 1: the received parts are rearranged.
  EXPECT_EQ(peak(mesh, "[a, -]", "[-, -]", {8, 8}), Bytes(16 + 64));
  EXPECT_EQ(peak(mesh, "[-, a]", "[-, -]", {8, 8}), Bytes(16 + 64 + 64));
  // 5 over 4 is 2,2,1,0: four padded parts of 2 rows, then 5 rows.
  EXPECT_EQ(peak(mesh, "[a, -]", "[-, -]", {5, 8}), Bytes(16 + 64 + 40));
  EXPECT_EQ(peak(mesh, "[-, -] partial{a}", "[-, -]", {8, 8}), Bytes(64 + 64));
  EXPECT_EQ(peak(mesh, "[-, -] partial{a}", "[a, -]", {8, 8}), Bytes(64 + 16));
  EXPECT_EQ(peak(mesh, "[-, -] partial{a}", "[-, a]", {8, 8}),
            Bytes(64 + 64 + 16));
  // Rows to columns: packed, received, no rearranging on dim 0.
  EXPECT_EQ(peak(mesh, "[a, -]", "[-, a]", {8, 8}), Bytes(16 + 16 + 16));
  EXPECT_EQ(peak(mesh, "[-, a]", "[a, -]", {8, 8}), Bytes(16 + 16 + 16));
  EXPECT_EQ(peak(mesh, "[-, -]", "[-, a]", {8, 8}), Bytes(64 + 16));
}

TEST(ConversionPeak, SourceStaysAlive) {
  // Two gathers: source 16, then the first result 32 beside the second 64.
  const DeviceMesh mesh = mesh_on("unit", {2, 2});
  EXPECT_EQ(peak(mesh, "[a:b]", "[-]", {64}), Bytes(16 + 32 + 64));
}

TEST(ConversionJson, StepsInThePlansForm) {
  const DeviceMesh mesh = mesh_on("unit", {2, 2});
  Converter converter(mesh);
  const auto json = [&](const char* from, const char* to) {
    const Conversion* found =
        converter.find(parse_spec(from, mesh).value(),
                       parse_spec(to, mesh).value(), {4, 2}, 4);
    return to_json(found->steps.at(0), mesh).dump();
  };
  EXPECT_EQ(json("[a, -]", "[-, -]"),
            R"({"kind":"all_gather","axis":"a","dim":0,"after":"[-, -]",)"
            R"("bytes":32})");
  EXPECT_EQ(json("[a, b]", "[-, b:a]"),
            R"({"kind":"all_to_all","axis":"a","dim":0,"to_dim":1,)"
            R"("after":"[-, b:a]","bytes":8})");
  EXPECT_EQ(json("[-, -] partial{b}", "[-, -]"),
            R"({"kind":"all_reduce","axis":"b","after":"[-, -]","bytes":32})");
  EXPECT_EQ(json("[-, -]", "[-, -] partial{b}"),
            R"({"kind":"make_partial","axis":"b",)"
            R"("after":"[-, -] partial{b}","bytes":0})");
}

TEST(DescribeConversion, OneLinePerStep) {
  const DeviceMesh mesh = mesh_on("unit", {2, 2});
  EXPECT_EQ(
      describe_conversion("[a, -]", "[-, a]", {4, 2}, mesh).value(),
      "[a, -] -> [-, a]   shape (4, 2), 4 bytes per element, mesh a=2 b=2\n"
      "  all_to_all     a   dim 0 -> dim 1           16 B      9.000 s   "
      "[-, a]\n"
      "time 9.000 s, peak 48 B\n");
  EXPECT_EQ(describe_conversion("[]", "[]", {}, mesh, 8).value(),
            "[] -> []   shape (), 8 bytes per element, mesh a=2 b=2\n"
            "time 0.00 us, peak 8 B\n");
}

TEST(DescribeConversion, Errors) {
  const DeviceMesh mesh = mesh_on("unit", {2, 2});
  const auto message = [&](const char* from, const char* to,
                           const Shape& shape) {
    const auto text = describe_conversion(from, to, shape, mesh);
    EXPECT_FALSE(text.has_value());
    return text.has_value() ? std::string() : text.error().message;
  };
  EXPECT_THAT(message("[x]", "[-]", {4}), HasSubstr("'x' is no axis"));
  EXPECT_THAT(message("[a]", "[-, -]", {4}),
              HasSubstr("expected 1 dims, got 2"));
  EXPECT_THAT(message("[a]", "[-]", {-4}), HasSubstr("got (-4)"));
  DeviceMesh broken = mesh;
  broken.axes[0].size = 0;
  EXPECT_FALSE(describe_conversion("[a]", "[-]", {4}, broken).has_value());
}

}  // namespace
}  // namespace shardwright::sharding
