// ShardingSpec: how a tensor lies on a DeviceMesh, and what one rank holds.
//
// Per tensor dim the ordered list of mesh axes that split it, major first, plus
// the set of axes it is partial over (each rank of such an axis holds an addend
// of the sum). An axis is used at most once; an axis not named replicates.
//
//   [a, -, b] partial{c}    dim 0 split by a, dim 2 by b, partial over c
//   [a:b, -]                dim 0 split by a, each part split again by b
//   []                      a scalar
//
// Uneven sizes follow torch.chunk once per axis, major first: n elements over w
// ranks give ceil(n/w) to the first ranks, then the rest, then none. 6 over
// axes of (2,2) is 2,1,2,1.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "shardwright/base/result.h"
#include "shardwright/base/units.h"
#include "shardwright/mesh/device_mesh.h"

namespace shardwright::sharding {

using mesh::DeviceMesh;

struct ShardingSpec {
  std::vector<std::vector<std::int32_t>> dims;
  std::vector<std::int32_t> partial;  // ascending

  auto operator<=>(const ShardingSpec&) const = default;
  [[nodiscard]] std::size_t rank() const { return dims.size(); }
};

// No axis splits it, nothing is partial.
ShardingSpec replicated(std::size_t rank);
bool is_replicated(const ShardingSpec& spec);

// Axes exist on the mesh, each is used at most once (so partial and shard
// exclude each other), partial is ascending. Errors: kInvalidArgument.
Result<bool> validate(const ShardingSpec& spec, const DeviceMesh& mesh);

// Text forms; parse(print(spec)) = spec. Errors: kParseError for bad text, a
// name that is no axis, an axis used twice.
std::string to_string(const ShardingSpec& spec, const DeviceMesh& mesh);
Result<ShardingSpec> parse_spec(const std::string& text,
                                const DeviceMesh& mesh);

// Part of one dim held by a rank: [offset, offset + size).
struct LocalRange {
  std::int64_t offset = 0;
  std::int64_t size = 0;
  auto operator<=>(const LocalRange&) const = default;
};

// Rank `index` of `ranks` takes its torch.chunk part of the range.
LocalRange chunk(LocalRange range, std::int64_t ranks, std::int64_t index);

// What the rank at `coordinate` (empty: 0 on every axis, the largest part)
// holds per dim. Requires a valid spec of the shape's rank.
std::vector<LocalRange> local_ranges(
    const std::vector<std::int64_t>& shape, const ShardingSpec& spec,
    const DeviceMesh& mesh, const std::vector<std::int64_t>& coordinate = {});
std::vector<std::int64_t> local_shape(
    const std::vector<std::int64_t>& shape, const ShardingSpec& spec,
    const DeviceMesh& mesh, const std::vector<std::int64_t>& coordinate = {});
// Bytes of the local part; the largest one by default.
Bytes local_bytes(const std::vector<std::int64_t>& shape,
                  const ShardingSpec& spec, const DeviceMesh& mesh,
                  std::int64_t element_bytes,
                  const std::vector<std::int64_t>& coordinate = {});

}  // namespace shardwright::sharding
