// Nominal numbers of common devices and of the hosts they come in: one data
// table. They rank choices before anything is measured; a Cluster made by
// measurement replaces them.
#pragma once

#include <string_view>
#include <vector>

#include "shardwright/base/units.h"
#include "shardwright/mesh/device.h"

namespace shardwright::mesh {

struct Preset {
  Device device;
  // Link inside a host, one direction of one device.
  Seconds host_alpha;
  double host_bandwidth = 0.0;  // bytes/s; infinite = free
  // Network of one host, all its adapters together, one direction.
  Seconds network_alpha;
  double network_bandwidth = 0.0;
};

const std::vector<Preset>& presets();
// nullptr when there is none of this name.
const Preset* find_preset(std::string_view name);

}  // namespace shardwright::mesh
