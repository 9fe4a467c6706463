// For tests only: all layouts of a rank, and meshes to try them on. Written
// from the definition of a ShardingSpec, not from the layer's own code.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "shardwright/mesh/cluster.h"
#include "shardwright/sharding/spec.h"

namespace shardwright::sharding::testing_layouts {

inline DeviceMesh mesh_on(const std::string& preset,
                          const std::vector<std::int64_t>& shape) {
  std::int64_t devices = 1;
  for (const std::int64_t size : shape) devices *= size;
  const auto cluster =
      mesh::parse_cluster(std::to_string(devices) + " " + preset).value();
  return mesh::mesh_of(cluster, shape).value();
}

// Puts axis after axis somewhere: nowhere, partial, or at any position of any
// dim's list. Every layout arises exactly once.
inline std::vector<ShardingSpec> all_specs(std::int32_t num_axes,
                                           std::size_t rank) {
  std::vector<ShardingSpec> specs = {replicated(rank)};
  for (std::int32_t axis = 0; axis < num_axes; ++axis) {
    std::vector<ShardingSpec> grown;
    for (const ShardingSpec& spec : specs) {
      grown.push_back(spec);
      ShardingSpec partial = spec;
      partial.partial.push_back(axis);
      grown.push_back(partial);
      for (std::size_t dim = 0; dim < rank; ++dim) {
        for (std::size_t at = 0; at <= spec.dims[dim].size(); ++at) {
          ShardingSpec split = spec;
          split.dims[dim].insert(
              split.dims[dim].begin() + static_cast<std::ptrdiff_t>(at), axis);
          grown.push_back(split);
        }
      }
    }
    specs = std::move(grown);
  }
  return specs;
}

}  // namespace shardwright::sharding::testing_layouts
