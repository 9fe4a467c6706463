#include "shardwright/sharding/spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "shardwright/base/check.h"
#include "shardwright/mesh/cluster.h"
#include "shardwright/sharding/port.h"

namespace shardwright::sharding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

DeviceMesh unit_mesh(const std::vector<std::int64_t>& shape) {
  std::int64_t devices = 1;
  for (const std::int64_t size : shape) devices *= size;
  const auto cluster =
      mesh::parse_cluster(std::to_string(devices) + " unit").value();
  return mesh::mesh_of(cluster, shape).value();
}

// Local sizes of dim 0 on every rank.
std::vector<std::int64_t> sizes(std::int64_t size, const char* spec,
                                const DeviceMesh& mesh) {
  std::vector<std::int64_t> all;
  for (std::int64_t rank = 0; rank < mesh.num_devices(); ++rank) {
    all.push_back(local_shape({size}, parse_spec(spec, mesh).value(), mesh,
                              mesh::coordinate_of(mesh, rank))[0]);
  }
  return all;
}

TEST(SpecText, RoundTrips) {
  const DeviceMesh mesh = unit_mesh({2, 2, 2});
  for (const char* text :
       {"[]", "[] partial{a}", "[-]", "[a, -, b] partial{c}", "[a:b, -]",
        "[b:a, c]", "[-, -, c:b:a]", "[-] partial{a,b,c}"}) {
    const auto spec = parse_spec(text, mesh);
    ASSERT_TRUE(spec.has_value()) << spec.error().message;
    EXPECT_EQ(to_string(*spec, mesh), text);
  }
  const auto loose = parse_spec(" [a:b,-]  partial{ c }", mesh);
  EXPECT_EQ(to_string(loose.value(), mesh), "[a:b, -] partial{c}");
  EXPECT_EQ(to_string(parse_spec("[-] partial{c,a}", mesh).value(), mesh),
            "[-] partial{a,c}");
}

TEST(SpecText, Errors) {
  const DeviceMesh mesh = unit_mesh({2, 2});
  const auto message = [&](const char* text) {
    const auto spec = parse_spec(text, mesh);
    EXPECT_FALSE(spec.has_value()) << text;
    return spec.has_value() ? std::string() : spec.error().message;
  };
  EXPECT_THAT(message(""), HasSubstr("expected '['"));
  EXPECT_THAT(message("a, -"), HasSubstr("expected '['"));
  EXPECT_THAT(message("[a, -"), HasSubstr("expected '['"));
  EXPECT_THAT(message("[x]"), HasSubstr("'x' is no axis of mesh a=2 b=2"));
  EXPECT_THAT(message("[a, a]"), HasSubstr("axis 'a' is used twice"));
  EXPECT_THAT(message("[a] partial{a}"), HasSubstr("used twice"));
  EXPECT_THAT(message("[a,]"), HasSubstr("a dim is empty"));
  EXPECT_THAT(message("[a:]"), HasSubstr("'' is no axis"));
  EXPECT_THAT(message("[a] partial"), HasSubstr("partial{...}"));
  EXPECT_THAT(message("[a] partial{b"), HasSubstr("partial{...}"));
  EXPECT_THAT(message("[a][b]"), HasSubstr("partial{...}"));
}

TEST(Spec, ValidateNamesTheFault) {
  const DeviceMesh mesh = unit_mesh({2, 2});
  EXPECT_TRUE(validate(ShardingSpec{{{1, 0}, {}}, {}}, mesh).has_value());
  EXPECT_THAT(validate(ShardingSpec{{{2}}, {}}, mesh).error().message,
              HasSubstr("axis 2 is not on mesh"));
  EXPECT_THAT(validate(ShardingSpec{{{0}}, {0}}, mesh).error().message,
              HasSubstr("'a' is used twice"));
  EXPECT_THAT(validate(ShardingSpec{{}, {1, 0}}, mesh).error().message,
              HasSubstr("mesh order"));
  EXPECT_TRUE(is_replicated(replicated(3)));
  EXPECT_FALSE(is_replicated(ShardingSpec{{{}}, {0}}));
}

TEST(LocalShape, ChunkOncePerAxisMajorFirst) {
  const DeviceMesh two_by_two = unit_mesh({2, 2});
  EXPECT_THAT(sizes(6, "[a:b]", two_by_two), ElementsAre(2, 1, 2, 1));
  EXPECT_THAT(sizes(6, "[b:a]", two_by_two), ElementsAre(2, 2, 1, 1));
  EXPECT_THAT(sizes(8, "[a:b]", two_by_two), ElementsAre(2, 2, 2, 2));
  EXPECT_THAT(sizes(1, "[a:b]", two_by_two), ElementsAre(1, 0, 0, 0));
  EXPECT_THAT(sizes(5, "[a]", two_by_two), ElementsAre(3, 3, 2, 2));
  const DeviceMesh four = unit_mesh({4});
  EXPECT_THAT(sizes(5, "[a]", four), ElementsAre(2, 2, 1, 0));
  EXPECT_THAT(sizes(9, "[a]", four), ElementsAre(3, 3, 3, 0));
  EXPECT_THAT(sizes(0, "[a]", four), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(sizes(7, "[-] partial{a}", four), ElementsAre(7, 7, 7, 7));
}

TEST(LocalShape, RangesAndBytes) {
  const DeviceMesh mesh = unit_mesh({2, 2});
  const ShardingSpec spec = parse_spec("[a:b, -]", mesh).value();
  EXPECT_THAT(local_ranges({6, 5}, spec, mesh, {1, 1}),
              ElementsAre(LocalRange{5, 1}, LocalRange{0, 5}));
  EXPECT_EQ(local_bytes({6, 5}, spec, mesh, 4), Bytes(2 * 5 * 4));
  EXPECT_EQ(local_bytes({6, 5}, spec, mesh, 4, {1, 1}), Bytes(5 * 4));
  EXPECT_EQ(local_bytes({}, replicated(0), mesh, 2), Bytes(2));
}

TEST(Port, TextRoundTrips) {
  for (const char* text : {"R", "D", "P", "S0", "S0,D", "S12,R,P,S127"}) {
    const std::size_t axes =
        1 + static_cast<std::size_t>(
                std::count(text, text + std::string(text).size(), ','));
    EXPECT_EQ(to_string(parse_port(text, axes).value()), text);
  }
  for (const char* text :
       {"", "r", "S", "S-1", "S00", "S128", "R,", ",R", "R R", "S0;R"}) {
    EXPECT_FALSE(parse_port(text, 1).has_value()) << text;
  }
  EXPECT_THAT(parse_port("R,R", 3).error().message,
              HasSubstr("expected 3 symbols, one per mesh axis, got 2"));
}

TEST(Port, LayoutsOfTensorAndGradient) {
  const DeviceMesh mesh = unit_mesh({2, 2, 2});
  const auto forward = [&](const char* text) {
    return to_string(forward_spec(parse_port(text, 3).value(), 2), mesh);
  };
  const auto gradient = [&](const char* text) {
    return to_string(gradient_spec(parse_port(text, 3).value(), 2), mesh);
  };
  EXPECT_EQ(forward("S1,D,P"), "[-, a] partial{c}");
  EXPECT_EQ(gradient("S1,D,P"), "[-, a] partial{b}");
  EXPECT_EQ(forward("S0,R,S0"), "[a:c, -]");
  EXPECT_EQ(gradient("S0,R,S0"), "[a:c, -]");
  EXPECT_EQ(forward("D,D,D"), "[-, -]");
  EXPECT_EQ(gradient("D,D,D"), "[-, -] partial{a,b,c}");
  EXPECT_THROW(forward_spec({shard(2), kR, kR}, 2), InternalError);
}

}  // namespace
}  // namespace shardwright::sharding
