// DeviceMesh: a named N-D arrangement of equal devices, and what a collective
// along one of its axes costs.
//
// Ranks are in row order: the last axis is the innermost (stride 1). An axis
// carries the latency and inverse bandwidth of the slowest link its rings
// cross (see cluster.h, which makes meshes from a Cluster).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/base/result.h"
#include "shardwright/base/units.h"
#include "shardwright/mesh/device.h"

namespace shardwright::mesh {

// More axes than this are refused: conversions are searched over all their
// layouts, and no known training layout needs more.
inline constexpr std::size_t kMaxAxes = 4;
// A guard against a slip of the keyboard; link costs are found by walking all
// devices.
inline constexpr std::int64_t kMaxDevices = 65536;

enum class CollectiveKind {
  kAllGather,
  kReduceScatter,
  kAllReduce,
  kAllToAll,
  kSlice,        // local: Replicate -> Shard
  kMakePartial,  // local: Replicate -> Partial, coordinate 0 keeps the value
};
// "all_gather", "reduce_scatter", "all_reduce", "all_to_all", "slice",
// "make_partial".
std::string_view to_string(CollectiveKind kind);
Result<CollectiveKind> parse_collective_kind(std::string_view text);

struct MeshAxis {
  std::string name;
  std::int64_t size = 1;
  Seconds alpha;      // latency of one step
  double beta = 0.0;  // seconds per byte

  bool operator==(const MeshAxis&) const = default;
};

struct DeviceMesh {
  std::vector<MeshAxis> axes;
  Device device;

  [[nodiscard]] std::int64_t num_devices() const;
  // Index of the axis with this name; -1 when there is none.
  [[nodiscard]] std::int32_t axis_index(std::string_view name) const;
  bool operator==(const DeviceMesh&) const = default;
};

// 1..kMaxAxes axes, sizes of at least 1, distinct names of the form
// [A-Za-z_][A-Za-z0-9_]*, finite alpha and beta, at most kMaxDevices devices, a
// valid device.
// Errors: kInvalidMesh.
Result<bool> validate(const DeviceMesh& mesh);

// devices * size, where both are 1..kMaxDevices; `part` ("axis 'dp'") is named
// when that is more than kMaxDevices. Errors: kInvalidMesh.
Result<std::int64_t> multiply_devices(std::int64_t devices, std::int64_t size,
                                      std::string_view part);

// "a=2 b=4"
std::string to_string(const DeviceMesh& mesh);

// Rank (row order) -> coordinate on every axis.
std::vector<std::int64_t> coordinate_of(const DeviceMesh& mesh,
                                        std::int64_t rank);
// The ranks that differ from `rank` only on `axis`, ascending, itself included.
std::vector<std::int64_t> group_of(const DeviceMesh& mesh, std::int64_t rank,
                                   std::size_t axis);

// Time of one collective along an axis of n ranks. `bytes` = N is
//   all_gather: the gathered local result; reduce_scatter, all_reduce: the
//   input of one rank; all_to_all: the input held by one rank; slice and
//   make_partial move nothing between ranks: 0 (see copy_time).
//
//   ring(N)        = (n-1) alpha + (n-1)/n N beta
//   tree(N)        = 2 ceil(log2 n) alpha + 2 N beta
//   all_reduce     = min(2 ring(N), tree(N))
//   reduce_scatter = min(ring(N), all_reduce(N)): its result is a part of the
//                    all-reduced value, so no detour is cheaper
//   all_gather, all_to_all = ring(N); the detour of all_to_all by an
//                    all_gather of n N bytes never costs less.
// An axis of one rank costs nothing. Source: the alpha-beta model of Thakur,
// Rabenseifner and Gropp (2005), ring and reduce-broadcast tree forms.
Seconds collective_time(CollectiveKind kind, const MeshAxis& axis, Bytes bytes);

}  // namespace shardwright::mesh
