#include "shardwright/mesh/device.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "shardwright/base/check.h"

namespace shardwright::mesh {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Json number_or_null(double value) {
  return std::isinf(value) ? Json(nullptr) : Json(value);
}

Result<double> number_or_infinity(const Json& object, const char* key,
                                  const std::string& where) {
  if (object.is_object() && object.contains(key) && object[key].is_null()) {
    return kInfinity;
  }
  return get_double(object, key, where);
}

tl::unexpected<Error> bad_field(const Device& device, const char* field,
                                const std::string& expected, double got) {
  return make_error(ErrorCode::kInvalidMesh,
                    fmt::format("[mesh] device '{}': {} must be {}, got {}",
                                device.name, field, expected, got));
}

Result<std::map<std::string, Efficiency>> efficiency_from_json(
    const Json& json, const std::string& where) {
  std::map<std::string, Efficiency> table;
  if (!json.contains("efficiency")) return table;
  SW_ASSIGN_OR_RETURN(const Json* classes,
                      get_object(json, "efficiency", where));
  for (const auto& [name, entry] : classes->items()) {
    const std::string place = fmt::format("{}.efficiency.{}", where, name);
    SW_RETURN_IF_ERROR(check_keys(entry, {"compute", "bandwidth"}, place));
    Efficiency part;
    SW_ASSIGN_OR_RETURN(part.compute, get_double(entry, "compute", place));
    SW_ASSIGN_OR_RETURN(part.bandwidth, get_double(entry, "bandwidth", place));
    table[name] = part;
  }
  return table;
}

}  // namespace

double peak_flops(const Device& device, std::string_view dtype) {
  auto found = device.peak_flops.find(std::string(dtype));
  if (found == device.peak_flops.end()) {
    found = device.peak_flops.find("default");
  }
  SW_CHECK(found != device.peak_flops.end(),
           "device without a default peak: " + device.name);
  return found->second;
}

Efficiency efficiency(const Device& device, std::string_view kernel_class) {
  const auto found = device.efficiency.find(std::string(kernel_class));
  return found == device.efficiency.end() ? Efficiency{} : found->second;
}

Seconds copy_time(const Device& device, Bytes bytes) {
  if (std::isinf(device.memory_bandwidth)) return Seconds(0.0);
  const double moved = 2.0 * static_cast<double>(bytes.value);
  return Seconds(
      moved / (device.memory_bandwidth * efficiency(device, "copy").bandwidth));
}

Result<bool> validate(const Device& device) {
  if (device.type != "cpu" && device.type != "cuda") {
    return make_error(
        ErrorCode::kInvalidMesh,
        fmt::format("[mesh] device '{}': type must be cpu or cuda, got '{}'",
                    device.name, device.type));
  }
  if (device.memory.value <= 0) {
    return bad_field(device, "memory_bytes", "above 0",
                     static_cast<double>(device.memory.value));
  }
  if (!device.peak_flops.contains("default")) {
    return make_error(ErrorCode::kInvalidMesh,
                      fmt::format("[mesh] device '{}': peak_flops has no entry "
                                  "'default'. Try: add the rate of the dtypes "
                                  "it does not name.",
                                  device.name));
  }
  for (const auto& [dtype, rate] : device.peak_flops) {
    if (!(rate > 0)) {
      return bad_field(device, ("peak_flops." + dtype).c_str(), "above 0",
                       rate);
    }
  }
  if (!(device.memory_bandwidth > 0)) {
    return bad_field(device, "memory_bandwidth", "above 0",
                     device.memory_bandwidth);
  }
  if (!(device.launch.value >= 0) || std::isinf(device.launch.value)) {
    return bad_field(device, "launch_s", "finite and not negative",
                     device.launch.value);
  }
  for (const auto& [name, part] : device.efficiency) {
    for (const double value : {part.compute, part.bandwidth}) {
      if (!(value > 0 && value <= 1)) {
        return bad_field(device, ("efficiency." + name).c_str(), "in (0, 1]",
                         value);
      }
    }
  }
  return true;
}

Json to_json(const Device& device) {
  Json peaks = Json::object();
  for (const auto& [dtype, rate] : device.peak_flops) {
    peaks[dtype] = number_or_null(rate);
  }
  Json classes = Json::object();
  for (const auto& [name, part] : device.efficiency) {
    classes[name] = {{"compute", part.compute}, {"bandwidth", part.bandwidth}};
  }
  return {{"name", device.name},
          {"type", device.type},
          {"memory_bytes", device.memory.value},
          {"peak_flops", std::move(peaks)},
          {"memory_bandwidth", number_or_null(device.memory_bandwidth)},
          {"launch_s", device.launch.value},
          {"efficiency", std::move(classes)}};
}

Result<Device> device_from_json(const Json& json, const std::string& where) {
  Device device;
  SW_RETURN_IF_ERROR(check_keys(json,
                                {"name", "type", "memory_bytes", "peak_flops",
                                 "memory_bandwidth", "launch_s", "efficiency"},
                                where));
  SW_ASSIGN_OR_RETURN(device.name, get_string(json, "name", where));
  SW_ASSIGN_OR_RETURN(device.type, get_string(json, "type", where));
  SW_ASSIGN_OR_RETURN(const std::int64_t memory,
                      get_int(json, "memory_bytes", where));
  device.memory = Bytes(memory);
  SW_ASSIGN_OR_RETURN(const Json* peaks, get_object(json, "peak_flops", where));
  for (const auto& [dtype, unused] : peaks->items()) {
    SW_ASSIGN_OR_RETURN(
        const double rate,
        number_or_infinity(*peaks, dtype.c_str(), where + ".peak_flops"));
    device.peak_flops[dtype] = rate;
  }
  SW_ASSIGN_OR_RETURN(device.memory_bandwidth,
                      number_or_infinity(json, "memory_bandwidth", where));
  SW_ASSIGN_OR_RETURN(device.launch.value, get_double(json, "launch_s", where));
  SW_ASSIGN_OR_RETURN(device.efficiency, efficiency_from_json(json, where));
  SW_RETURN_IF_ERROR(validate(device));
  return device;
}

}  // namespace shardwright::mesh
