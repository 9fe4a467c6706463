// Bytes a collective allocates while it runs, beside its input and result.
//
// Mirrors what python/shardwright/runtime/collectives.py does (its table is
// the source; a test compares both with bytes really allocated). A dim is
// *outer* when all dims before it in memory have local size 1: pieces along it
// lie one after the other, so nothing has to be packed. Conversions keep the
// order of the dims in memory; what is not dense is copied first.
#pragma once

#include <cstdint>
#include <vector>

#include "shardwright/cost/record.h"
#include "shardwright/mesh/device_mesh.h"
#include "shardwright/sharding/converter.h"
#include "shardwright/sharding/spec.h"

namespace shardwright::cost {

struct CollectiveShape {
  mesh::CollectiveKind kind = mesh::CollectiveKind::kAllReduce;
  std::int64_t axis_size = 1;
  std::int64_t in_bytes = 0;
  std::int64_t out_bytes = 0;
  bool dim_outer = true;     // the gathered, scattered or source dim
  bool to_dim_outer = true;  // the target dim of an all_to_all
  bool dense = true;         // the input fills its memory
};

// Highest level above input + output reached inside.
std::int64_t collective_transient(const CollectiveShape& shape);

// Whether `dim` of a local shape is outer; `order` of the dims in memory,
// empty: as named.
bool is_outer(const std::vector<std::int64_t>& local_shape, std::int32_t dim,
              const std::vector<std::int32_t>& order);

// Highest level above (source + result) while the steps run one after the
// other; the source, which lies as `layout` says, is held by the caller
// throughout.
std::int64_t conversion_transient(
    const std::vector<sharding::CollectiveStep>& steps,
    const sharding::ShardingSpec& from, const std::vector<std::int64_t>& shape,
    std::int64_t element_bytes, const MemoryLayout& layout,
    const mesh::DeviceMesh& mesh);

}  // namespace shardwright::cost
