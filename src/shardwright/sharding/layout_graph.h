// All layouts of a tensor rank on a number of mesh axes, and the one-axis steps
// between them. Sizes play no part: one graph serves every shape of the rank.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "shardwright/mesh/device_mesh.h"
#include "shardwright/sharding/spec.h"

namespace shardwright::sharding::internal {

// Ten bits per mesh axis: where it is (0 replicated, 1 partial, 2 + dim) in the
// low eight, its position in the dim's list in the high two.
using LayoutCode = std::uint64_t;
inline constexpr std::uint64_t kPlaceReplicated = 0;
inline constexpr std::uint64_t kPlacePartial = 1;
inline constexpr std::uint64_t kPlaceFirstDim = 2;

// nullopt when the spec is not valid: axis not on the mesh or used twice.
std::optional<LayoutCode> encode(const ShardingSpec& spec,
                                 std::size_t num_axes);

struct LayoutStep {
  mesh::CollectiveKind kind;
  std::int8_t axis;
  std::int8_t dim;
  std::int8_t to_dim;
  std::int32_t source;
  std::int32_t target;
};

struct LayoutGraph {
  std::vector<ShardingSpec> specs;  // by layout index; 0 is replicated
  std::unordered_map<LayoutCode, std::int32_t> index_of;
  std::vector<LayoutStep> steps;         // sorted by source
  std::vector<std::int32_t> first_step;  // per layout, and one past the end

  [[nodiscard]] std::size_t num_layouts() const { return specs.size(); }
};

LayoutGraph make_layout_graph(std::size_t num_axes, std::size_t rank);

}  // namespace shardwright::sharding::internal
