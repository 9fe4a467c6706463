#include "shardwright/mesh/device_mesh.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <cmath>
#include <set>

#include "shardwright/base/check.h"

namespace shardwright::mesh {
namespace {

constexpr std::array<std::string_view, 6> kKindNames = {
    "all_gather", "reduce_scatter", "all_reduce",
    "all_to_all", "slice",          "make_partial"};

bool is_name(std::string_view text) {
  const auto letter = [](char c) {
    return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_';
  };
  const auto follows = [&letter](char c) {
    return letter(c) || std::isdigit(static_cast<unsigned char>(c)) != 0;
  };
  return !text.empty() && letter(text.front()) &&
         std::all_of(text.begin(), text.end(), follows);
}

Result<bool> validate_axis(const MeshAxis& axis) {
  if (!is_name(axis.name)) {
    return make_error(
        ErrorCode::kInvalidMesh,
        fmt::format("[mesh] '{}' is no axis name: expected letters, digits and "
                    "'_', not starting with a digit. Try: dp, tp, a, b.",
                    axis.name));
  }
  if (axis.size < 1 || axis.size > kMaxDevices) {
    return make_error(ErrorCode::kInvalidMesh,
                      fmt::format("[mesh] axis '{}': expected a size of 1 to "
                                  "{}, got {}",
                                  axis.name, kMaxDevices, axis.size));
  }
  const auto usable = [](double value) { return value >= 0 && value < 1e300; };
  if (!usable(axis.alpha.value) || !usable(axis.beta)) {
    return make_error(ErrorCode::kInvalidMesh,
                      fmt::format("[mesh] axis '{}': alpha and beta must be "
                                  "finite and not negative, got {} and {}",
                                  axis.name, axis.alpha.value, axis.beta));
  }
  return true;
}

double ring_time(const MeshAxis& axis, double bytes) {
  const double others = static_cast<double>(axis.size - 1);
  return others * axis.alpha.value +
         others / static_cast<double>(axis.size) * bytes * axis.beta;
}

double tree_time(const MeshAxis& axis, double bytes) {
  const auto levels = std::bit_width(static_cast<std::uint64_t>(axis.size - 1));
  return 2.0 * static_cast<double>(levels) * axis.alpha.value +
         2.0 * bytes * axis.beta;
}

}  // namespace

std::string_view to_string(CollectiveKind kind) {
  return kKindNames[static_cast<std::size_t>(kind)];
}

Result<CollectiveKind> parse_collective_kind(std::string_view text) {
  const auto found = std::find(kKindNames.begin(), kKindNames.end(), text);
  if (found == kKindNames.end()) {
    return make_error(
        ErrorCode::kParseError,
        fmt::format("[mesh] unknown collective: expected one of {}, got '{}'",
                    fmt::join(kKindNames, ", "), text));
  }
  return static_cast<CollectiveKind>(found - kKindNames.begin());
}

std::int64_t DeviceMesh::num_devices() const {
  std::int64_t count = 1;
  for (const MeshAxis& axis : axes) count *= axis.size;
  return count;
}

std::int32_t DeviceMesh::axis_index(std::string_view name) const {
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].name == name) return static_cast<std::int32_t>(i);
  }
  return -1;
}

Result<std::int64_t> multiply_devices(std::int64_t devices, std::int64_t size,
                                      std::string_view part) {
  devices *= size;  // at most kMaxDevices squared
  if (devices > kMaxDevices) {
    return make_error(ErrorCode::kInvalidMesh,
                      fmt::format("[mesh] too many devices: expected at most "
                                  "{}, got {} up to {}",
                                  kMaxDevices, devices, part));
  }
  return devices;
}

Result<bool> validate(const DeviceMesh& mesh) {
  if (mesh.axes.empty() || mesh.axes.size() > kMaxAxes) {
    return make_error(
        ErrorCode::kInvalidMesh,
        fmt::format("[mesh] wrong number of mesh axes: expected 1 "
                    "to {}, got {}. Try: join axes.",
                    kMaxAxes, mesh.axes.size()));
  }
  std::set<std::string> names;
  std::int64_t devices = 1;
  for (const MeshAxis& axis : mesh.axes) {
    SW_RETURN_IF_ERROR(validate_axis(axis));
    SW_ASSIGN_OR_RETURN(devices,
                        multiply_devices(devices, axis.size,
                                         fmt::format("axis '{}'", axis.name)));
    if (!names.insert(axis.name).second) {
      return make_error(ErrorCode::kInvalidMesh,
                        fmt::format("[mesh] two axes are named '{}'. Try: give "
                                    "each axis its own name.",
                                    axis.name));
    }
  }
  return validate(mesh.device);
}

std::string to_string(const DeviceMesh& mesh) {
  std::string text;
  for (const MeshAxis& axis : mesh.axes) {
    if (!text.empty()) text += ' ';
    text += fmt::format("{}={}", axis.name, axis.size);
  }
  return text;
}

std::vector<std::int64_t> coordinate_of(const DeviceMesh& mesh,
                                        std::int64_t rank) {
  SW_CHECK(rank >= 0 && rank < mesh.num_devices(), "rank outside of the mesh");
  std::vector<std::int64_t> coordinate(mesh.axes.size());
  for (std::size_t i = mesh.axes.size(); i-- > 0;) {
    coordinate[i] = rank % mesh.axes[i].size;
    rank /= mesh.axes[i].size;
  }
  return coordinate;
}

std::vector<std::int64_t> group_of(const DeviceMesh& mesh, std::int64_t rank,
                                   std::size_t axis) {
  std::int64_t stride = 1;
  for (std::size_t i = axis + 1; i < mesh.axes.size(); ++i) {
    stride *= mesh.axes[i].size;
  }
  const std::int64_t first = rank - coordinate_of(mesh, rank).at(axis) * stride;
  std::vector<std::int64_t> group;
  for (std::int64_t i = 0; i < mesh.axes[axis].size; ++i) {
    group.push_back(first + i * stride);
  }
  return group;
}

Seconds collective_time(CollectiveKind kind, const MeshAxis& axis,
                        Bytes bytes) {
  if (axis.size == 1) return Seconds(0.0);
  const double size = static_cast<double>(bytes.value);
  const double ring = ring_time(axis, size);
  switch (kind) {
    case CollectiveKind::kAllGather:
    case CollectiveKind::kAllToAll:
      return Seconds(ring);
    case CollectiveKind::kReduceScatter:
      return Seconds(std::min(ring, tree_time(axis, size)));
    case CollectiveKind::kAllReduce:
      return Seconds(std::min(2.0 * ring, tree_time(axis, size)));
    case CollectiveKind::kSlice:
    case CollectiveKind::kMakePartial:
      return Seconds(0.0);
  }
  return Seconds(0.0);
}

}  // namespace shardwright::mesh
