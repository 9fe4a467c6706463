// mesh_of and candidate_meshes: from devices and links to mesh axes.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "shardwright/base/check.h"
#include "shardwright/mesh/cluster.h"

namespace shardwright::mesh {
namespace {

struct LinkCost {
  Seconds alpha;
  double beta = 0.0;
};

// units[l] = devices in one unit of level l; units.back() = all devices.
std::vector<std::int64_t> unit_sizes(const Cluster& cluster) {
  std::vector<std::int64_t> units = {1};
  for (const LinkLevel& level : cluster.levels) {
    units.push_back(units.back() * level.size);
  }
  return units;
}

// The lowest level that joins the two devices.
std::size_t joining_level(const std::vector<std::int64_t>& units,
                          std::int64_t one, std::int64_t other) {
  std::size_t level = 0;
  while (one / units[level + 1] != other / units[level + 1]) ++level;
  return level;
}

// Walks the ring of every group of the axis (device d has its successor at
// d + stride, the last one wraps) and counts, per level and unit, the ring
// edges that leave the unit over that level's link.
LinkCost slowest_link(const Cluster& cluster, std::int64_t size,
                      std::int64_t stride) {
  const std::vector<std::int64_t> units = unit_sizes(cluster);
  std::vector<std::map<std::int64_t, std::int64_t>> crossing(
      cluster.levels.size());
  for (std::int64_t device = 0; device < units.back(); ++device) {
    const bool last = device / stride % size == size - 1;
    const std::int64_t next =
        last ? device - stride * (size - 1) : device + stride;
    if (next == device) continue;  // an axis of one device
    const std::size_t level = joining_level(units, device, next);
    ++crossing[level][device / units[level]];
  }
  LinkCost cost;
  for (std::size_t level = 0; level < crossing.size(); ++level) {
    for (const auto& [unit, rings] : crossing[level]) {
      const LinkLevel& link = cluster.levels[level];
      cost.alpha = std::max(cost.alpha, link.alpha);
      cost.beta = std::max(cost.beta, link.beta * static_cast<double>(rings));
    }
  }
  return cost;
}

std::vector<std::string> default_names(std::size_t count) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) {
    names.emplace_back(1, static_cast<char>('a' + i));
  }
  return names;
}

Result<bool> check_shape(const Cluster& cluster,
                         const std::vector<std::int64_t>& shape) {
  if (shape.empty() || shape.size() > kMaxAxes) {
    return make_error(
        ErrorCode::kInvalidMesh,
        fmt::format("[mesh] mesh ({}): expected 1 to {} axes, got {}",
                    fmt::join(shape, ", "), kMaxAxes, shape.size()));
  }
  std::int64_t product = 1;
  for (const std::int64_t size : shape) {
    if (size < 1 || size > kMaxDevices) {
      return make_error(
          ErrorCode::kInvalidMesh,
          fmt::format("[mesh] mesh ({}): expected axis sizes of 1 to {}, got "
                      "{}. Try: leave the axis out.",
                      fmt::join(shape, ", "), kMaxDevices, size));
    }
    product = std::min(product * size, kMaxDevices + 1);  // no overflow
  }
  if (product != cluster.num_devices()) {
    return make_error(
        ErrorCode::kInvalidMesh,
        fmt::format("[mesh] mesh ({}) does not fit cluster '{}': expected a "
                    "product of {} devices, got {}{}. Try: a shape whose sizes "
                    "multiply to {}.",
                    fmt::join(shape, ", "), cluster.name, cluster.num_devices(),
                    product > kMaxDevices ? "more than " : "",
                    std::min(product, kMaxDevices), cluster.num_devices()));
  }
  return true;
}

// Inner axes span blocks of `span` consecutive devices; see the header.
bool respects_levels(const std::vector<std::int64_t>& units,
                     std::int64_t span) {
  return std::all_of(units.begin(), units.end(), [span](std::int64_t unit) {
    return unit % span == 0 || span % unit == 0;
  });
}

// All ways to split `devices`, the product of what is still open, into one
// more axis on the left of `shape` (built from the innermost axis outwards).
void split(const std::vector<std::int64_t>& units, std::int64_t devices,
           std::size_t max_axes, std::vector<std::int64_t>& inner,
           std::vector<std::vector<std::int64_t>>& shapes) {
  if (devices == 1) {
    shapes.emplace_back(inner.rbegin(), inner.rend());
    return;
  }
  if (inner.size() == max_axes) return;
  for (std::int64_t size = 2; size <= devices; ++size) {
    if (devices % size != 0) continue;
    if (!respects_levels(units, units.back() / devices * size)) continue;
    inner.push_back(size);
    split(units, devices / size, max_axes, inner, shapes);
    inner.pop_back();
  }
}

}  // namespace

Result<DeviceMesh> mesh_of(const Cluster& cluster,
                           const std::vector<std::int64_t>& shape,
                           const std::vector<std::string>& names) {
  SW_RETURN_IF_ERROR(validate(cluster));
  SW_RETURN_IF_ERROR(check_shape(cluster, shape));
  const std::vector<std::string> used =
      names.empty() ? default_names(shape.size()) : names;
  if (used.size() != shape.size()) {
    return make_error(
        ErrorCode::kInvalidMesh,
        fmt::format("[mesh] mesh ({}): expected {} axis names, got {} ({})",
                    fmt::join(shape, ", "), shape.size(), used.size(),
                    fmt::join(used, ", ")));
  }
  DeviceMesh mesh;
  mesh.device = cluster.device;
  std::int64_t stride = cluster.num_devices();
  for (std::size_t i = 0; i < shape.size(); ++i) {
    stride /= shape[i];
    const LinkCost cost = slowest_link(cluster, shape[i], stride);
    mesh.axes.push_back({used[i], shape[i], cost.alpha, cost.beta});
  }
  SW_RETURN_IF_ERROR(validate(mesh));
  return mesh;
}

std::vector<DeviceMesh> candidate_meshes(const Cluster& cluster,
                                         std::size_t max_axes) {
  std::vector<std::vector<std::int64_t>> shapes;
  if (cluster.num_devices() == 1) {
    shapes.push_back({1});
  } else {
    std::vector<std::int64_t> inner;
    split(unit_sizes(cluster), cluster.num_devices(),
          std::min(max_axes, kMaxAxes), inner, shapes);
  }
  std::sort(shapes.begin(), shapes.end(), [](const auto& x, const auto& y) {
    return std::forward_as_tuple(x.size(), x) <
           std::forward_as_tuple(y.size(), y);
  });
  std::vector<DeviceMesh> meshes;
  for (const auto& shape : shapes) {
    Result<DeviceMesh> mesh = mesh_of(cluster, shape);
    SW_CHECK(mesh.has_value(), "candidate refused: " + mesh.error().message);
    meshes.push_back(std::move(*mesh));
  }
  return meshes;
}

std::vector<DeviceMesh> drop_permutations(std::vector<DeviceMesh> meshes) {
  using Links = std::vector<std::tuple<std::int64_t, double, double>>;
  std::set<Links> seen;
  std::erase_if(meshes, [&seen](const DeviceMesh& mesh) {
    Links links;
    for (const MeshAxis& axis : mesh.axes) {
      links.emplace_back(axis.size, axis.alpha.value, axis.beta);
    }
    std::sort(links.begin(), links.end());
    return !seen.insert(std::move(links)).second;
  });
  return meshes;
}

}  // namespace shardwright::mesh
