#include "shardwright/mesh/cluster.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "shardwright/mesh/presets.h"

namespace shardwright::mesh {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string shape_text(const DeviceMesh& mesh) {
  std::string text;
  for (const MeshAxis& axis : mesh.axes) {
    text += (text.empty() ? "" : "x") + std::to_string(axis.size);
  }
  return text;
}

std::vector<std::string> candidate_shapes(const std::string& cluster) {
  std::vector<std::string> shapes;
  for (const DeviceMesh& mesh :
       candidate_meshes(parse_cluster(cluster).value())) {
    shapes.push_back(shape_text(mesh));
  }
  return shapes;
}

// Two hosts of `devices`; intra-host links cost 1 + 1, the network 10 + 100.
Cluster two_hosts(std::int64_t devices) {
  Cluster cluster = parse_cluster("2x2 unit").value();
  cluster.levels = {{"host", devices, Seconds(1), 1.0},
                    {"network", 2, Seconds(10), 100.0}};
  return cluster;
}

TEST(ParseCluster, TextForms) {
  const Cluster two = parse_cluster("2x8 a100-80g").value();
  EXPECT_EQ(two.num_devices(), 16);
  ASSERT_EQ(two.levels.size(), 2U);
  EXPECT_EQ(two.levels[0].size, 8);
  EXPECT_DOUBLE_EQ(two.levels[0].beta, 1 / 300e9);
  EXPECT_EQ(two.device.memory.value, 80LL << 30);
  EXPECT_EQ(parse_cluster(" 2 X 8  a100-80g ").value(), two);
  EXPECT_EQ(parse_cluster("8 h100").value().levels.size(), 1U);
  EXPECT_EQ(parse_cluster("1x4 cpu").value(), parse_cluster("4 cpu").value());
}

TEST(ParseCluster, ErrorsNameThePresets) {
  for (const char* text :
       {"", "8", "h100", "8h100", "x8 h100", "2x h100", "2 x h100", "0 cpu",
        "2x0 cpu", "4 cpus", "4 xpu", "-4 cpu", "4 cpu 5"}) {
    const auto cluster = parse_cluster(text);
    ASSERT_FALSE(cluster.has_value()) << text;
    EXPECT_EQ(cluster.error().code, ErrorCode::kParseError) << text;
    EXPECT_THAT(cluster.error().message, HasSubstr("rtx4090")) << text;
  }
  EXPECT_EQ(parse_cluster("999999999 cpu").error().code,
            ErrorCode::kInvalidMesh);
  EXPECT_EQ(parse_cluster("nowhere.json").error().code, ErrorCode::kIoError);
}

TEST(ClusterJson, EveryPresetRoundTrips) {
  EXPECT_EQ(presets().size(), 10U);
  for (const Preset& preset : presets()) {
    const Cluster cluster = parse_cluster("2x4 " + preset.device.name).value();
    const Json json = to_json(cluster);
    const auto again = cluster_from_json(parse_json(json.dump(), "t").value());
    ASSERT_TRUE(again.has_value()) << again.error().message;
    EXPECT_EQ(*again, cluster) << preset.device.name;
  }
}

TEST(ClusterJson, ExplicitFile) {
  const std::string path = testing::TempDir() + "sw_cluster_test.json";
  ASSERT_TRUE(write_text_file(path, R"({
    "schema": "shardwright.cluster", "version": 1, "name": "bench",
    "device": {"name": "d", "type": "cuda", "memory_bytes": 1000,
               "peak_flops": {"default": 1, "bfloat16": null},
               "memory_bandwidth": null, "launch_s": 0},
    "levels": [{"name": "pair", "size": 2, "alpha_s": 1, "beta_s_per_byte": 2},
               {"name": "host", "size": 3, "alpha_s": 3, "beta_s_per_byte": 4}]
    })"));
  const auto cluster = parse_cluster(path);
  std::remove(path.c_str());
  ASSERT_TRUE(cluster.has_value()) << cluster.error().message;
  EXPECT_EQ(cluster->num_devices(), 6);
  EXPECT_EQ(peak_flops(cluster->device, "float32"), 1);
  EXPECT_GT(peak_flops(cluster->device, "bfloat16"), 1e300);
  EXPECT_EQ(copy_time(cluster->device, Bytes(5)).value, 0);
}

TEST(ClusterJson, Errors) {
  Json json = to_json(parse_cluster("4 cpu").value());
  json["version"] = 2;
  EXPECT_EQ(cluster_from_json(json).error().code, ErrorCode::kVersionMismatch);
  json["version"] = 1;
  json["device"] = "abacus";
  EXPECT_THAT(cluster_from_json(json).error().message,
              HasSubstr("no preset 'abacus'"));
  json["device"] = "h100";
  EXPECT_EQ(cluster_from_json(json)->device.name, "h100");
  json["levels"][0]["size"] = 0;
  EXPECT_THAT(cluster_from_json(json).error().message,
              HasSubstr("link level 'host'"));
  json["levels"] = Json::array();
  EXPECT_THAT(cluster_from_json(json).error().message,
              HasSubstr("at least one link level"));
  json["levels"] = Json::array({{{"name", "host"}}});
  EXPECT_THAT(cluster_from_json(json).error().message,
              HasSubstr("cluster.levels[0]: 'size' is missing"));
}

TEST(ClusterJson, UnknownFieldsAreSlips) {
  const Json right = to_json(parse_cluster("4 cpu").value());
  const auto message = [](const Json& json) {
    const auto cluster = cluster_from_json(json);
    EXPECT_FALSE(cluster.has_value());
    return cluster.error().message;
  };
  Json json = right;
  json["level"] = 3;
  EXPECT_THAT(message(json), HasSubstr("cluster: unknown field 'level'"));
  json = right;
  json["device"]["memory"] = 3;
  EXPECT_THAT(message(json), HasSubstr("memory_bytes"));
  json = right;
  json["levels"][0]["alpha"] = 3;
  EXPECT_THAT(message(json), HasSubstr("cluster.levels[0]"));
  json = right;
  json["levels"][0]["alpha_s"] = -1;
  EXPECT_THAT(message(json), HasSubstr("alpha_s must be finite"));
}

TEST(MeshOf, AxesCarryTheSlowestLink) {
  const DeviceMesh mesh = mesh_of(two_hosts(4), {2, 4}).value();
  EXPECT_EQ(to_string(mesh), "a=2 b=4");
  // Four rings of axis a leave each host at once over its one link.
  EXPECT_EQ(mesh.axes[0].alpha.value, 10);
  EXPECT_EQ(mesh.axes[0].beta, 400);
  EXPECT_EQ(mesh.axes[1].alpha.value, 1);
  EXPECT_EQ(mesh.axes[1].beta, 1);
}

TEST(MeshOf, SharedLinksCountEveryRing) {
  const auto network_beta = [](const std::vector<std::int64_t>& shape) {
    return mesh_of(two_hosts(4), shape).value().axes[0].beta;
  };
  EXPECT_EQ(network_beta({8}), 100);        // one ring through both hosts
  EXPECT_EQ(network_beta({4, 2}), 200);     // two
  EXPECT_EQ(network_beta({2, 2, 2}), 400);  // four
  // Groups of 4 over hosts of 6: the middle one straddles them.
  const DeviceMesh astride = mesh_of(two_hosts(6), {3, 4}).value();
  EXPECT_EQ(astride.axes[1].beta, 100);
  EXPECT_EQ(astride.axes[1].alpha.value, 10);
}

TEST(MeshOf, NamesAndTrivialAxes) {
  const Cluster cluster = parse_cluster("4 unit").value();
  const DeviceMesh mesh = mesh_of(cluster, {1, 4}, {"pp", "tp"}).value();
  EXPECT_EQ(to_string(mesh), "pp=1 tp=4");
  EXPECT_EQ(mesh.axes[0].beta, 0);
  EXPECT_EQ(mesh.axes[1].beta, 1);
}

TEST(MeshOf, Errors) {
  const Cluster cluster = parse_cluster("2x4 cpu").value();
  const auto message = [&](const std::vector<std::int64_t>& shape,
                           const std::vector<std::string>& names = {}) {
    const auto mesh = mesh_of(cluster, shape, names);
    EXPECT_FALSE(mesh.has_value());
    EXPECT_EQ(mesh.error().code, ErrorCode::kInvalidMesh);
    return mesh.error().message;
  };
  EXPECT_THAT(message({2, 2}), HasSubstr("product of 8 devices, got 4"));
  EXPECT_THAT(message({0, 8}), HasSubstr("got 0"));
  EXPECT_THAT(message({-2, -4}), HasSubstr("got -2"));
  EXPECT_THAT(message({}), HasSubstr("expected 1 to 4 axes, got 0"));
  EXPECT_THAT(message({2, 2, 2, 1, 1}), HasSubstr("axes, got 5"));
  EXPECT_THAT(message({2, 4}, {"dp"}), HasSubstr("expected 2 axis names"));
  EXPECT_THAT(message({2, 4}, {"dp", "dp"}), HasSubstr("two axes are named"));
  EXPECT_THAT(message({60000, 60000, 60000, 60000}), HasSubstr("does not fit"));
}

TEST(CandidateMeshes, EveryFactorisationOnce) {
  EXPECT_THAT(candidate_shapes("8 cpu"),
              ElementsAre("8", "2x4", "4x2", "2x2x2"));
  EXPECT_THAT(candidate_shapes("6 cpu"), ElementsAre("6", "2x3", "3x2"));
  EXPECT_THAT(candidate_shapes("7 cpu"), ElementsAre("7"));
  EXPECT_THAT(candidate_shapes("1 cpu"), ElementsAre("1"));
  EXPECT_EQ(candidate_shapes("8x8 h100").size(), 1U + 5U + 10U);
}

TEST(CandidateMeshes, RespectHosts) {
  // 3x4 would put a group of 4 across hosts of 6; 2x2x3 has blocks of 3 and 6.
  EXPECT_THAT(candidate_shapes("2x6 cpu"),
              ElementsAre("12", "2x6", "4x3", "6x2", "2x2x3", "2x3x2"));
}

TEST(CandidateMeshes, PermutationsCanBeDropped) {
  std::vector<std::string> shapes;
  for (const DeviceMesh& mesh :
       drop_permutations(candidate_meshes(parse_cluster("8 cpu").value()))) {
    shapes.push_back(shape_text(mesh));
  }
  EXPECT_THAT(shapes, ElementsAre("8", "2x4", "2x2x2"));
  // Over two hosts the outer axis is the slow one: nothing is the same.
  const auto two = candidate_meshes(parse_cluster("2x4 h100").value());
  EXPECT_EQ(drop_permutations(two), two);
}

}  // namespace
}  // namespace shardwright::mesh
