// Roofline time of an op's kernels at local sizes (DESIGN §9):
//   sum over kernels of max(FLOPs / (peak eff), bytes / (bandwidth eff)) +
//   launch.
#pragma once

#include <string_view>
#include <vector>

#include "shardwright/base/units.h"
#include "shardwright/cost/record.h"
#include "shardwright/mesh/device.h"

namespace shardwright::cost {

// `dtype` decides the peak rate; `factor_sizes` are local. O(kernels).
Seconds kernels_time(const std::vector<Kernel>& kernels,
                     const std::vector<std::int64_t>& factor_sizes,
                     const mesh::Device& device, std::string_view dtype);

}  // namespace shardwright::cost
