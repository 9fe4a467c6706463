// One-step layout algebra: what one collective makes of a layout, and how many
// bytes it moves. Written from the plan format's definitions, apart from the
// conversion search.
//
//   all_gather      dim's last axis goes away
//   reduce_scatter  a partial axis becomes dim's last axis
//   all_reduce      a partial axis goes away
//   all_to_all      dim's last axis becomes to_dim's last axis
//   slice           a free axis becomes dim's last axis
//   make_partial    a free axis becomes partial
//
// Every step leaves the tensor's logical value as it was, so a chain of steps
// that ends in the right layout is right.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shardwright/base/result.h"
#include "shardwright/mesh/device_mesh.h"
#include "shardwright/plan/plan.h"
#include "shardwright/sharding/spec.h"

namespace shardwright::verify::internal {

using Layout = sharding::ShardingSpec;

// Reads a spec of a tensor of `rank` dims. Errors: kInvalidPlan.
Result<Layout> read_layout(const std::string& text, std::size_t rank,
                           const mesh::DeviceMesh& mesh);

// The layout after the step. Errors: kInvalidPlan (unknown kind or axis, no
// such dim, or the layout is not one the step can start from).
Result<Layout> after_step(const Layout& layout,
                          const plan::CollectiveStep& step,
                          const mesh::DeviceMesh& mesh);

// Sizes on the rank at coordinate 0: per axis, major first, ceil(n / ranks).
std::vector<std::int64_t> local_sizes(const std::vector<std::int64_t>& shape,
                                      const Layout& layout,
                                      const mesh::DeviceMesh& mesh);
std::int64_t held_bytes(const std::vector<std::int64_t>& shape,
                        const Layout& layout, const mesh::DeviceMesh& mesh,
                        std::int64_t element_bytes);

// Sizes of all parts of a dim of `size` split over axes of these sizes, in
// rank order, by torch.chunk once per axis.
std::vector<std::int64_t> parts(std::int64_t size,
                                const std::vector<std::int64_t>& ranks);

// The bytes a plan states for a step, given local bytes before and after it.
std::int64_t stated_bytes(const std::string& kind, std::int64_t before,
                          std::int64_t after);

}  // namespace shardwright::verify::internal
