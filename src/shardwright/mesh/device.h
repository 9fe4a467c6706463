// Device: what one accelerator (or CPU process) can do, as data.
//
// Numbers of a preset are data-sheet values; `efficiency` says which part of
// them kernels of a class reach. An absent class reaches all of it (1.0).
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "shardwright/base/json.h"
#include "shardwright/base/result.h"
#include "shardwright/base/units.h"

namespace shardwright::mesh {

// Reached part of the peak, both in (0, 1].
struct Efficiency {
  double compute = 1.0;
  double bandwidth = 1.0;
  auto operator<=>(const Efficiency&) const = default;
};

struct Device {
  std::string name;
  std::string type = "cpu";  // "cpu" or "cuda": torch's device type
  Bytes memory;              // what a process may allocate
  // FLOP/s by dtype name ("float32", "bfloat16", ...); "default" stands for
  // every dtype not named. Infinite = compute costs no time.
  std::map<std::string, double> peak_flops;
  double memory_bandwidth = 0.0;  // bytes/s; infinite = unlimited
  Seconds launch;                 // fixed time of one kernel
  // By kernel class: gemm, attention, conv, elementwise, reduction, copy,
  // other.
  std::map<std::string, Efficiency> efficiency;

  bool operator==(const Device&) const = default;
};

// Peak rate for a dtype, FLOP/s: the named entry, else "default". A Device
// that passed validate() always has one.
double peak_flops(const Device& device, std::string_view dtype);
Efficiency efficiency(const Device& device, std::string_view kernel_class);

// Time of a local copy of `bytes`: read and written once at the device's
// memory bandwidth (0 when unlimited), reached part of class "copy".
Seconds copy_time(const Device& device, Bytes bytes);

// Errors: kInvalidMesh naming the field that makes no sense.
Result<bool> validate(const Device& device);

// JSON form; null stands for infinity. Errors: kParseError, kInvalidMesh.
Json to_json(const Device& device);
Result<Device> device_from_json(const Json& json, const std::string& where);

}  // namespace shardwright::mesh
