#include "shardwright/cost/collective_memory.h"

#include <algorithm>

#include "shardwright/base/check.h"

namespace shardwright::cost {
namespace {

std::int64_t bytes_of(const std::vector<std::int64_t>& shape,
                      std::int64_t element_bytes) {
  std::int64_t bytes = element_bytes;
  for (const std::int64_t size : shape) bytes *= size;
  return bytes;
}

}  // namespace

bool is_outer(const std::vector<std::int64_t>& local_shape, std::int32_t dim,
              const std::vector<std::int32_t>& order) {
  for (std::size_t i = 0; i < local_shape.size(); ++i) {
    const std::int32_t d =
        order.empty() ? static_cast<std::int32_t>(i) : order[i];
    if (d == dim) return true;
    if (local_shape[static_cast<std::size_t>(d)] != 1) return false;
  }
  return true;
}

std::int64_t collective_transient(const CollectiveShape& shape) {
  if (shape.axis_size == 1) return 0;
  switch (shape.kind) {
    case mesh::CollectiveKind::kAllGather:
      return (shape.dim_outer ? 0 : shape.out_bytes) +
             (shape.dense ? 0 : shape.in_bytes);
    case mesh::CollectiveKind::kReduceScatter: {
      const std::int64_t received = shape.axis_size * shape.out_bytes;
      const bool lies_packed = shape.dim_outer && shape.dense;
      const std::int64_t packed = lies_packed ? 0 : shape.in_bytes;
      return std::max(received, packed + received - shape.out_bytes);
    }
    case mesh::CollectiveKind::kAllToAll: {
      const std::int64_t received = shape.dim_outer ? 0 : shape.out_bytes;
      const bool lies_packed = shape.to_dim_outer && shape.dense;
      const std::int64_t packed = lies_packed ? 0 : shape.in_bytes;
      return std::max(received, packed);
    }
    case mesh::CollectiveKind::kAllReduce:
    case mesh::CollectiveKind::kSlice:
    case mesh::CollectiveKind::kMakePartial:
      return 0;
  }
  return 0;
}

std::int64_t conversion_transient(
    const std::vector<sharding::CollectiveStep>& steps,
    const sharding::ShardingSpec& from, const std::vector<std::int64_t>& shape,
    std::int64_t element_bytes, const MemoryLayout& layout,
    const mesh::DeviceMesh& mesh) {
  if (steps.empty()) return 0;
  std::vector<std::int64_t> local =
      sharding::local_shape(shape, from, mesh, {});
  const std::int64_t source = bytes_of(local, element_bytes);
  const std::int64_t result =
      bytes_of(sharding::local_shape(shape, steps.back().after, mesh, {}),
               element_bytes);
  std::int64_t peak = source + result;
  std::int64_t held = 0;  // the intermediate result being read
  for (const sharding::CollectiveStep& step : steps) {
    SW_CHECK(step.axis >= 0, "a conversion step names no axis");
    const std::vector<std::int64_t> next =
        sharding::local_shape(shape, step.after, mesh, {});
    CollectiveShape one;
    one.kind = step.kind;
    one.axis_size = mesh.axes[static_cast<std::size_t>(step.axis)].size;
    one.in_bytes = bytes_of(local, element_bytes);
    one.out_bytes = bytes_of(next, element_bytes);
    if (step.dim >= 0) {
      one.dim_outer = is_outer(local, step.dim, layout.order);
    }
    if (step.to_dim >= 0) {
      one.to_dim_outer = is_outer(local, step.to_dim, layout.order);
    }
    one.dense = layout.dense || held > 0;  // a step's result is dense
    peak = std::max(peak,
                    source + held + one.out_bytes + collective_transient(one));
    held = one.out_bytes;
    local = next;
  }
  return peak - source - result;
}

}  // namespace shardwright::cost
