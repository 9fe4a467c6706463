#include "shardwright/cost/kernel_time.h"

#include <algorithm>

namespace shardwright::cost {

Seconds kernels_time(const std::vector<Kernel>& kernels,
                     const std::vector<std::int64_t>& factor_sizes,
                     const mesh::Device& device, std::string_view dtype) {
  const double peak = mesh::peak_flops(device, dtype);
  Seconds total(0);
  for (const Kernel& kernel : kernels) {
    const mesh::Efficiency reached =
        mesh::efficiency(device, kernel.kernel_class);
    const double compute =
        kernel.flops.value(factor_sizes) / (peak * reached.compute);
    const double traffic = (kernel.bytes_read.value(factor_sizes) +
                            kernel.bytes_written.value(factor_sizes)) /
                           (device.memory_bandwidth * reached.bandwidth);
    total += Seconds(std::max(compute, traffic)) + device.launch;
  }
  return total;
}

}  // namespace shardwright::cost
