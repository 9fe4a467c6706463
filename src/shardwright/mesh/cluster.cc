#include "shardwright/mesh/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "shardwright/mesh/presets.h"

namespace shardwright::mesh {
namespace {

std::string preset_names() {
  std::string names;
  for (const Preset& preset : presets()) {
    if (!names.empty()) names += ", ";
    names += preset.device.name;
  }
  return names;
}

tl::unexpected<Error> no_cluster(const std::string& text,
                                 const std::string& reason) {
  return make_error(
      ErrorCode::kParseError,
      fmt::format("[mesh] '{}' is no cluster: {}. Try: \"2x8 a100-80g\", \"4 "
                  "cpu\" or a .json file; presets: {}.",
                  text, reason, preset_names()));
}

struct ClusterText {
  std::int64_t hosts = 1;
  std::int64_t devices = 0;
  std::string name;
};

// Takes blanks, then a number, off the front; numbers too long to be sizes
// stop at a value that validate() refuses.
std::optional<std::int64_t> take_number(std::string_view& text) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  if (text.empty() || !is_digit(text.front())) return std::nullopt;
  std::int64_t number = 0;
  while (!text.empty() && is_digit(text.front())) {
    number = std::min(number * 10 + (text.front() - '0'), kMaxDevices + 1);
    text.remove_prefix(1);
  }
  return number;
}

// "[HOSTS x] DEVICES NAME" -> its parts; nullopt for any other form.
std::optional<ClusterText> split_text(std::string_view text) {
  ClusterText parts;
  const auto first = take_number(text);
  if (!first) return std::nullopt;
  parts.devices = *first;
  const std::size_t next = text.find_first_not_of(" \t");
  if (next == std::string_view::npos) return std::nullopt;
  std::string_view after = text.substr(next + 1);
  const auto second = text[next] == 'x' || text[next] == 'X'
                          ? take_number(after)
                          : std::nullopt;
  if (second) {
    parts.hosts = *first;
    parts.devices = *second;
    text = after;
  }
  // The name: one word, set apart from the number.
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == 0 || begin == std::string_view::npos) return std::nullopt;
  const std::size_t end =
      std::min(text.find_first_of(" \t", begin), text.size());
  if (text.find_first_not_of(" \t", end) != std::string_view::npos) {
    return std::nullopt;
  }
  parts.name = std::string(text.substr(begin, end - begin));
  return parts;
}

Cluster cluster_of(const Preset& preset, std::int64_t hosts,
                   std::int64_t devices) {
  Cluster cluster;
  cluster.device = preset.device;
  cluster.name =
      hosts > 1 ? fmt::format("{}x{} {}", hosts, devices, preset.device.name)
                : fmt::format("{} {}", devices, preset.device.name);
  cluster.levels.push_back(
      {"host", devices, preset.host_alpha, 1.0 / preset.host_bandwidth});
  if (hosts > 1) {
    cluster.levels.push_back({"network", hosts, preset.network_alpha,
                              1.0 / preset.network_bandwidth});
  }
  return cluster;
}

Result<Device> device_or_preset(const Json& json) {
  if (json.contains("device") && json["device"].is_string()) {
    const std::string name = json["device"].get<std::string>();
    const Preset* preset = find_preset(name);
    if (preset != nullptr) return preset->device;
    return make_error(ErrorCode::kParseError,
                      fmt::format("[mesh] cluster.device: no preset '{}'. Try: "
                                  "one of {}, or a full description.",
                                  name, preset_names()));
  }
  SW_ASSIGN_OR_RETURN(const Json* device,
                      get_object(json, "device", "cluster"));
  return device_from_json(*device, "cluster.device");
}

Result<bool> check_header(const Json& json) {
  SW_ASSIGN_OR_RETURN(const std::string schema,
                      get_string(json, "schema", "cluster"));
  SW_ASSIGN_OR_RETURN(const std::int64_t version,
                      get_int(json, "version", "cluster"));
  if (schema != kClusterSchema || version != kClusterVersion) {
    return make_error(
        ErrorCode::kVersionMismatch,
        fmt::format("[mesh] expected {} version {}, got '{}' version {}",
                    kClusterSchema, kClusterVersion, schema, version));
  }
  return check_keys(json, {"schema", "version", "name", "device", "levels"},
                    "cluster");
}

Result<bool> validate_level(const LinkLevel& level) {
  const auto bad = [&level](const char* field, const std::string& expected,
                            auto got) {
    return make_error(ErrorCode::kInvalidMesh,
                      fmt::format("[mesh] link level '{}': {} must be {}, got "
                                  "{}",
                                  level.name, field, expected, got));
  };
  if (level.size < 1 || level.size > kMaxDevices) {
    return bad("size", fmt::format("1 to {}", kMaxDevices), level.size);
  }
  for (const auto& [field, value] : {std::pair{"alpha_s", level.alpha.value},
                                     {"beta_s_per_byte", level.beta}}) {
    if (!(value >= 0 && value < 1e300)) {
      return bad(field, "finite and at least 0", value);
    }
  }
  return true;
}

}  // namespace

std::int64_t Cluster::num_devices() const {
  std::int64_t count = 1;
  for (const LinkLevel& level : levels) count *= level.size;
  return count;
}

Result<bool> validate(const Cluster& cluster) {
  SW_RETURN_IF_ERROR(validate(cluster.device));
  if (cluster.levels.empty()) {
    return make_error(ErrorCode::kInvalidMesh,
                      "[mesh] a cluster needs at least one link level");
  }
  std::int64_t devices = 1;
  for (const LinkLevel& level : cluster.levels) {
    SW_RETURN_IF_ERROR(validate_level(level));
    SW_ASSIGN_OR_RETURN(
        devices, multiply_devices(devices, level.size,
                                  fmt::format("level '{}'", level.name)));
  }
  return true;
}

Result<Cluster> parse_cluster(const std::string& text) {
  if (text.ends_with(".json")) {
    SW_ASSIGN_OR_RETURN(const Json json, read_json_file(text));
    Result<Cluster> cluster = cluster_from_json(json);
    if (!cluster) cluster.error().message += " (cluster file " + text + ")";
    return cluster;
  }
  const std::optional<ClusterText> parts = split_text(text);
  if (!parts) return no_cluster(text, "expected [HOSTS x] DEVICES NAME");
  const Preset* preset = find_preset(parts->name);
  if (preset == nullptr) {
    return no_cluster(text, fmt::format("unknown preset '{}'", parts->name));
  }
  if (parts->hosts < 1 || parts->devices < 1) {
    return no_cluster(text, "expected at least one device, got 0");
  }
  // take_number stops above the limit, so the number itself is in the text
  // only.
  if (std::max(parts->hosts, parts->devices) > kMaxDevices) {
    return make_error(ErrorCode::kInvalidMesh,
                      fmt::format("[mesh] '{}' has too many devices: expected "
                                  "at most {}",
                                  text, kMaxDevices));
  }
  Cluster cluster = cluster_of(*preset, parts->hosts, parts->devices);
  SW_RETURN_IF_ERROR(validate(cluster));
  return cluster;
}

Result<Cluster> cluster_from_json(const Json& json) {
  SW_RETURN_IF_ERROR(check_header(json));
  Cluster cluster;
  SW_ASSIGN_OR_RETURN(cluster.name, get_string(json, "name", "cluster"));
  SW_ASSIGN_OR_RETURN(cluster.device, device_or_preset(json));
  SW_ASSIGN_OR_RETURN(const Json* levels, get_array(json, "levels", "cluster"));
  for (const Json& entry : *levels) {
    const std::string where =
        fmt::format("cluster.levels[{}]", cluster.levels.size());
    LinkLevel level;
    if (entry.is_object()) {
      SW_RETURN_IF_ERROR(check_keys(
          entry, {"name", "size", "alpha_s", "beta_s_per_byte"}, where));
    }
    SW_ASSIGN_OR_RETURN(level.name, get_string(entry, "name", where));
    SW_ASSIGN_OR_RETURN(level.size, get_int(entry, "size", where));
    SW_ASSIGN_OR_RETURN(level.alpha.value, get_double(entry, "alpha_s", where));
    SW_ASSIGN_OR_RETURN(level.beta,
                        get_double(entry, "beta_s_per_byte", where));
    cluster.levels.push_back(std::move(level));
  }
  SW_RETURN_IF_ERROR(validate(cluster));
  return cluster;
}

Json to_json(const Cluster& cluster) {
  Json levels = Json::array();
  for (const LinkLevel& level : cluster.levels) {
    levels.push_back({{"name", level.name},
                      {"size", level.size},
                      {"alpha_s", level.alpha.value},
                      {"beta_s_per_byte", level.beta}});
  }
  return {{"schema", kClusterSchema},
          {"version", kClusterVersion},
          {"name", cluster.name},
          {"device", to_json(cluster.device)},
          {"levels", std::move(levels)}};
}

}  // namespace shardwright::mesh
