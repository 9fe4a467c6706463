// Cluster: devices and links as data, and the meshes they can form.
//
// Devices are numbered 0.. so that each level joins consecutive units: level 0
// joins single devices (into hosts), level 1 joins hosts (into a network), and
// so on. A unit is attached to its level by one link of latency alpha and
// inverse bandwidth beta, shared by everything that leaves the unit.
//
//   "2x8 a100-80g"  ->  levels {host: 8, network: 2}, 16 devices
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shardwright/base/json.h"
#include "shardwright/base/result.h"
#include "shardwright/mesh/device.h"
#include "shardwright/mesh/device_mesh.h"

namespace shardwright::mesh {

inline constexpr const char* kClusterSchema = "shardwright.cluster";
inline constexpr std::int64_t kClusterVersion = 1;

struct LinkLevel {
  std::string name;
  std::int64_t size = 1;  // units of the level below that it joins
  Seconds alpha;
  double beta = 0.0;  // seconds per byte of one unit's link

  bool operator==(const LinkLevel&) const = default;
};

struct Cluster {
  std::string name;
  Device device;
  std::vector<LinkLevel> levels;  // innermost first

  [[nodiscard]] std::int64_t num_devices() const;
  bool operator==(const Cluster&) const = default;
};

// Errors: kInvalidMesh.
Result<bool> validate(const Cluster& cluster);

// "[HOSTS x] DEVICES NAME" ("2x8 a100-80g", "8 h100", "4 cpu"; NAME of a
// preset, see presets.h), or the path of a cluster file (ends in ".json").
// Errors: kParseError naming the known presets, kIoError, kInvalidMesh.
Result<Cluster> parse_cluster(const std::string& text);

// {"schema":"shardwright.cluster","version":1,"name":..,"device":{..},
//  "levels":[{"name","size","alpha_s","beta_s_per_byte"}]}; "device" may be the
// name of a preset. Errors: kParseError, kVersionMismatch, kInvalidMesh.
Result<Cluster> cluster_from_json(const Json& json);
Json to_json(const Cluster& cluster);

// The mesh of this shape over all devices in order. Names default to "a", "b",
// ... . alpha and beta of an axis are those of the slowest link its rings
// cross; all groups of an axis run at once, so a link crossed by g rings counts
// g beta. Errors: kInvalidMesh (product of the shape is not the number of
// devices, a size below 1, more than kMaxAxes axes, bad or too few names).
// O(devices x axes x levels).
Result<DeviceMesh> mesh_of(const Cluster& cluster,
                           const std::vector<std::int64_t>& shape,
                           const std::vector<std::string>& names = {});

// Every ordered factorisation of the device count into 1..max_axes axes of at
// least two devices whose groups respect the levels: a block of consecutive
// devices spanned by the inner axes lies inside one unit or is made of whole
// units (no group of 4 across hosts of 6). Each shape once, sorted by number of
// axes, then by shape. One device: the mesh (1).
std::vector<DeviceMesh> candidate_meshes(const Cluster& cluster,
                                         std::size_t max_axes = 3);

// Keeps the first of the meshes whose axes have the same sizes and link costs
// up to their order: they differ only in which axis is major where several
// axes split one dim.
std::vector<DeviceMesh> drop_permutations(std::vector<DeviceMesh> meshes);

}  // namespace shardwright::mesh
