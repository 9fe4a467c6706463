#include "shardwright/mesh/cluster.h"

#include <fmt/format.h>

#include <regex>

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
  return true;
}

Result<bool> validate_level(const LinkLevel& level) {
  const auto usable = [](double value) { return value >= 0 && value < 1e300; };
  if (level.size >= 1 && level.size <= kMaxDevices &&
      usable(level.alpha.value) && usable(level.beta)) {
    return true;
  }
  return make_error(
      ErrorCode::kInvalidMesh,
      fmt::format("[mesh] link level '{}': expected a size of 1 to {} and "
                  "finite alpha and beta of at least 0, got {}, {} and {}",
                  level.name, kMaxDevices, level.size, level.alpha.value,
                  level.beta));
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
    devices *= level.size;
    if (devices > kMaxDevices) {
      return make_error(ErrorCode::kInvalidMesh,
                        fmt::format("[mesh] too many devices: expected at most "
                                    "{}, got {} up to level '{}'",
                                    kMaxDevices, devices, level.name));
    }
  }
  return true;
}

Result<Cluster> parse_cluster(const std::string& text) {
  if (text.ends_with(".json")) {
    SW_ASSIGN_OR_RETURN(const Json json, read_json_file(text));
    return cluster_from_json(json);
  }
  static const std::regex form(
      R"(\s*(?:(\d{1,9})\s*[xX]\s*)?(\d{1,9})\s+(\S+)\s*)");
  std::smatch match;
  if (!std::regex_match(text, match, form)) {
    return no_cluster(text, "expected [HOSTS x] DEVICES NAME");
  }
  const Preset* preset = find_preset(match[3].str());
  if (preset == nullptr) {
    return no_cluster(text, fmt::format("unknown preset '{}'", match[3].str()));
  }
  const std::int64_t hosts = match[1].matched ? std::stoll(match[1].str()) : 1;
  const std::int64_t devices = std::stoll(match[2].str());
  if (hosts < 1 || devices < 1) {
    return no_cluster(text, "expected at least one device, got 0");
  }
  Cluster cluster = cluster_of(*preset, hosts, devices);
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
