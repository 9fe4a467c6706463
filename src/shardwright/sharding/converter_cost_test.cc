// Conversions against an exhaustive search written from the rules of the
// header: two layouts are one step apart when they differ in the place of one
// axis, which is last in its dim's list on either side.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <ctime>
#include <optional>

#include "shardwright/sharding/converter.h"
#include "shardwright/sharding/testing_layouts.h"

namespace shardwright::sharding {
namespace {

using testing_layouts::all_specs;
using testing_layouts::mesh_on;
using Shape = std::vector<std::int64_t>;

constexpr int kNowhere = -1;
constexpr int kPartialPlace = -2;
constexpr int kNotLast = -3;

// Dim the axis is last of, or one of the constants above.
int place_of(const ShardingSpec& spec, std::int32_t axis) {
  for (std::size_t dim = 0; dim < spec.dims.size(); ++dim) {
    for (const std::int32_t used : spec.dims[dim]) {
      if (used != axis) continue;
      return spec.dims[dim].back() == axis ? static_cast<int>(dim) : kNotLast;
    }
  }
  for (const std::int32_t used : spec.partial) {
    if (used == axis) return kPartialPlace;
  }
  return kNowhere;
}

ShardingSpec without(ShardingSpec spec, std::int32_t axis) {
  for (auto& axes : spec.dims) std::erase(axes, axis);
  std::erase(spec.partial, axis);
  return spec;
}

double elements_at_zero(const Shape& shape, const ShardingSpec& spec,
                        const DeviceMesh& mesh) {
  double count = 1;
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    std::int64_t size = shape[dim];
    for (const std::int32_t axis : spec.dims[dim]) {
      const std::int64_t ranks = mesh.axes[static_cast<std::size_t>(axis)].size;
      size = size / ranks + (size % ranks != 0 ? 1 : 0);
    }
    count *= static_cast<double>(size);
  }
  return count;
}

// Price of the one step between two layouts; nullopt: not one step apart.
std::optional<double> step_price(const ShardingSpec& from,
                                 const ShardingSpec& to, std::int32_t index,
                                 const Shape& shape, double element_bytes,
                                 const DeviceMesh& mesh) {
  if (without(from, index) != without(to, index)) return std::nullopt;
  const int source = place_of(from, index);
  const int target = place_of(to, index);
  if (source == target || source == kNotLast || target == kNotLast) {
    return std::nullopt;
  }
  const mesh::MeshAxis& axis = mesh.axes[static_cast<std::size_t>(index)];
  const double n = static_cast<double>(axis.size);
  const double in = element_bytes * elements_at_zero(shape, from, mesh);
  const double out = element_bytes * elements_at_zero(shape, to, mesh);
  const auto ring = [&](double bytes) {
    return (n - 1) * axis.alpha.value + (n - 1) / n * bytes * axis.beta;
  };
  const auto tree = [&](double bytes) {
    return 2 * std::ceil(std::log2(n)) * axis.alpha.value +
           2 * bytes * axis.beta;
  };
  const double bandwidth = mesh.device.memory_bandwidth *
                           mesh::efficiency(mesh.device, "copy").bandwidth;
  const auto copy = [&](bool needed, double bytes) {
    return needed ? 2 * bytes / bandwidth : 0.0;
  };
  if (source == kPartialPlace) {
    if (target == kNowhere) return std::min(2 * ring(in), tree(in));
    return std::min(ring(in), tree(in)) + copy(target != 0, in);
  }
  if (source == kNowhere) return copy(true, out);
  if (target == kNowhere) return ring(out) + copy(source != 0, out);
  if (target == kPartialPlace) return std::nullopt;
  return ring(in) + copy(target != 0, in) + copy(source != 0, out);
}

// Bellman-Ford over all layouts: best[from][to].
std::vector<std::vector<double>> exhaustive(
    const std::vector<ShardingSpec>& specs, const Shape& shape,
    double element_bytes, const DeviceMesh& mesh) {
  struct Edge {
    std::size_t from, to;
    double price;
  };
  std::vector<Edge> edges;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    for (std::size_t j = 0; j < specs.size(); ++j) {
      for (std::size_t axis = 0; axis < mesh.axes.size(); ++axis) {
        const auto price =
            step_price(specs[i], specs[j], static_cast<std::int32_t>(axis),
                       shape, element_bytes, mesh);
        if (price) edges.push_back({i, j, *price});
      }
    }
  }
  std::vector<std::vector<double>> best(
      specs.size(), std::vector<double>(specs.size(), 1e300));
  for (std::size_t source = 0; source < specs.size(); ++source) {
    best[source][source] = 0;
    for (bool better = true; better;) {
      better = false;
      for (const Edge& edge : edges) {
        const double reached = best[source][edge.from] + edge.price;
        if (reached < best[source][edge.to] * (1 - 1e-12)) {
          best[source][edge.to] = reached;
          better = true;
        }
      }
    }
  }
  return best;
}

struct Case {
  std::string preset;
  Shape mesh;
  Shape shape;
};

std::vector<Case> cases() {
  std::vector<Case> list;
  for (const char* preset : {"unit", "h100"}) {
    for (const Shape& mesh : {Shape{2}, Shape{4}, Shape{2, 2}, Shape{2, 4}}) {
      for (const Shape& shape :
           {Shape{}, Shape{64}, Shape{7}, Shape{16, 8}, Shape{5, 6},
            Shape{64, 32, 16}, Shape{3, 1, 6}, Shape{4096, 1024, 512}}) {
        list.push_back({preset, mesh, shape});
      }
    }
    list.push_back({preset, {2, 2, 2}, {6, 10}});
    list.push_back({preset, {16}, {64, 2}});
  }
  return list;
}

TEST(Converter, AllPairsMatchExhaustiveSearch) {
  for (const Case& test : cases()) {
    const DeviceMesh mesh = mesh_on(test.preset, test.mesh);
    const auto specs = all_specs(static_cast<std::int32_t>(mesh.axes.size()),
                                 test.shape.size());
    const auto best = exhaustive(specs, test.shape, 4, mesh);
    Converter converter(mesh);
    for (std::size_t i = 0; i < specs.size(); ++i) {
      for (std::size_t j = 0; j < specs.size(); ++j) {
        const Conversion* found =
            converter.find(specs[i], specs[j], test.shape, 4);
        ASSERT_NE(found, nullptr);
        EXPECT_NEAR(found->time.value, best[i][j], 1e-9 * best[i][j])
            << to_string(specs[i], mesh) << " -> " << to_string(specs[j], mesh)
            << " on " << mesh::to_string(mesh) << " " << test.preset;
      }
    }
  }
}

TEST(Converter, PathsAreWhatTheyClaim) {
  for (const Case& test : cases()) {
    const DeviceMesh mesh = mesh_on(test.preset, test.mesh);
    const auto specs = all_specs(static_cast<std::int32_t>(mesh.axes.size()),
                                 test.shape.size());
    Converter converter(mesh);
    for (const ShardingSpec& from : specs) {
      for (const ShardingSpec& to : specs) {
        const Conversion& found = *converter.find(from, to, test.shape, 4);
        EXPECT_EQ(found.steps.empty(), from == to);
        double total = 0;
        const ShardingSpec* at = &from;
        for (const CollectiveStep& step : found.steps) {
          const auto price =
              step_price(*at, step.after, step.axis, test.shape, 4, mesh);
          ASSERT_TRUE(price.has_value());
          EXPECT_NEAR(step.time.value, *price, 1e-9 * *price);
          total += step.time.value;
          at = &step.after;
        }
        EXPECT_EQ(*at, to);
        EXPECT_NEAR(found.time.value, total, 1e-9 * total);
        const Bytes source = local_bytes(test.shape, from, mesh, 4);
        const Bytes target = local_bytes(test.shape, to, mesh, 4);
        EXPECT_GE(found.peak, from == to ? source : source + target);
      }
    }
  }
}

TEST(Converter, TriangleInequality) {
  for (const char* preset : {"unit", "a100-80g"}) {
    const DeviceMesh mesh = mesh_on(preset, {2, 4});
    const Shape shape = {6, 64, 10};
    const auto specs = all_specs(2, 3);
    Converter converter(mesh);
    const auto all = converter.find_all(specs, specs, shape, 2);
    const std::size_t n = specs.size();
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        const double direct = all[i * n + j]->time.value;
        for (std::size_t k = 0; k < n; ++k) {
          const double detour =
              all[i * n + k]->time.value + all[k * n + j]->time.value;
          EXPECT_LE(direct, detour * (1 + 1e-12));
        }
      }
    }
  }
}

TEST(Converter, AnswersAreKeptAndRepeatable) {
  const DeviceMesh mesh = mesh_on("h100", {2, 2, 2});
  const auto specs = all_specs(3, 2);
  Converter forwards(mesh);
  Converter backwards(mesh);
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const std::size_t j = (i * 7 + 3) % specs.size();
    const Conversion* first = forwards.find(specs[i], specs[j], {8, 6}, 4);
    EXPECT_EQ(forwards.find(specs[i], specs[j], {8, 6}, 4), first);
  }
  // The order of questions does not change the answers.
  for (std::size_t i = specs.size(); i-- > 0;) {
    const std::size_t j = (i * 7 + 3) % specs.size();
    const Conversion* first = forwards.find(specs[i], specs[j], {8, 6}, 4);
    const Conversion* second = backwards.find(specs[i], specs[j], {8, 6}, 4);
    ASSERT_EQ(first->steps.size(), second->steps.size());
    EXPECT_EQ(first->time, second->time);
    for (std::size_t k = 0; k < first->steps.size(); ++k) {
      EXPECT_EQ(first->steps[k].after, second->steps[k].after);
    }
  }
}

TEST(Converter, RefusesWhatIsNoLayout) {
  Converter converter(mesh_on("unit", {2, 2}));
  const ShardingSpec good = replicated(2);
  EXPECT_EQ(converter.find(ShardingSpec{{{0}, {0}}, {}}, good, {4, 4}, 4),
            nullptr);
  EXPECT_EQ(converter.find(good, ShardingSpec{{{5}, {}}, {}}, {4, 4}, 4),
            nullptr);
  EXPECT_EQ(converter.find(good, replicated(3), {4, 4}, 4), nullptr);
  EXPECT_EQ(converter.find(replicated(17), replicated(17), Shape(17, 1), 4),
            nullptr);
  EXPECT_EQ(converter.find_all({good}, {good, replicated(1)}, {4, 4}, 4)[1],
            nullptr);
}

TEST(Converter, ManyAxesAndDimsStayFast) {
  const DeviceMesh mesh = mesh_on("h100", {2, 2, 2});
  const auto spec = [&](const char* text) {
    return parse_spec(text, mesh).value();
  };
  const ShardingSpec from = spec("[a, -, b, -] partial{c}");
  const ShardingSpec to = spec("[-, c:a, -, -]");
  Converter converter(mesh);
  converter.find(from, to, {1, 1, 1, 1}, 4);  // layouts of the rank
  const auto start = std::clock();
  for (std::int64_t i = 0; i < 50; ++i) {
    ASSERT_NE(converter.find(from, to, {64 + i, 32, 16, 8}, 4), nullptr);
  }
  const auto middle = std::clock();
  for (int i = 0; i < 10000; ++i) {
    ASSERT_NE(converter.find(from, to, {64, 32, 16, 8}, 4), nullptr);
  }
  const auto end = std::clock();
  const auto micros = [](std::clock_t span) {  // of this process alone
    return 1e6 * static_cast<double>(span) / CLOCKS_PER_SEC;
  };
  // Ten times what an idle machine needs.
  EXPECT_LT(micros(middle - start) / 50, 3000);
  EXPECT_LT(micros(end - middle) / 10000, 5);
}

}  // namespace
}  // namespace shardwright::sharding
