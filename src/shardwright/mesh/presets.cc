#include "shardwright/mesh/presets.h"

#include <limits>

namespace shardwright::mesh {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// One row of the table. Rates in TFLOP/s without structured sparsity;
// float32 is the rate of torch's default (no TF32); 0 = no units of its own
// for this dtype, it runs at the float32 rate. Bandwidths in GB/s (1e9),
// memory in GiB, latencies in microseconds.
struct Row {
  const char* name;
  const char* type;
  double memory;
  double float32;
  double half;  // float16
  double bfloat16;
  double float64;
  double memory_bandwidth;
  double launch;
  double host_alpha;
  double host_bandwidth;
  double network_alpha;
  double network_bandwidth;
};

// Rates, memory and links are those of the vendors' data sheets: SXM boards,
// NVLink (or Infinity Fabric) one direction, eight network adapters a host
// (V100: four of 100 Gbit/s, A100: eight of 200, later: eight of 400); the
// 4090 talks over PCIe 4 through host memory and has one 100 Gbit/s adapter.
// `cpu` is a few cores of a server with the gloo backend, ten gigabit
// Ethernet. Latencies are orders of magnitude for one step of a ring.
constexpr Row kRows[] = {
    // name, type, GiB, fp32, fp16, bf16, fp64, GB/s, launch us,
    //   host us, GB/s, network us, GB/s
    {"v100", "cuda", 32, 15.7, 125, 0, 7.8, 900, 5,  //
     4, 150, 12, 50},
    {"a100-40g", "cuda", 40, 19.5, 312, 312, 9.7, 1555, 4,  //
     3, 300, 10, 200},
    {"a100-80g", "cuda", 80, 19.5, 312, 312, 9.7, 2039, 4,  //
     3, 300, 10, 200},
    {"h100", "cuda", 80, 67, 989, 989, 34, 3350, 4,  //
     3, 450, 10, 400},
    {"h200", "cuda", 141, 67, 989, 989, 34, 4800, 4,  //
     3, 450, 10, 400},
    {"b200", "cuda", 180, 75, 2250, 2250, 37, 7700, 4,  //
     3, 900, 10, 400},
    {"mi300x", "cuda", 192, 163.4, 1307, 1307, 81.7, 5300, 5,  //
     4, 448, 10, 400},
    {"rtx4090", "cuda", 24, 82.6, 165, 165, 1.3, 1008, 4,  //
     8, 16, 15, 12.5},
    {"cpu", "cpu", 16, 0.1, 0.025, 0.05, 0.05, 20, 2,  //
     50, 2, 100, 1.25},
};

// Part of the data-sheet numbers that well-tuned kernels of a class reach on
// shapes of a training step; nominal, the same for every preset.
const std::map<std::string, Efficiency>& nominal_efficiency() {
  static const std::map<std::string, Efficiency> table = {
      {"gemm", {0.70, 0.80}},      {"attention", {0.50, 0.75}},
      {"conv", {0.55, 0.75}},      {"elementwise", {1.00, 0.80}},
      {"reduction", {1.00, 0.70}}, {"copy", {1.00, 0.80}},
      {"other", {0.50, 0.60}},
  };
  return table;
}

Preset preset_of(const Row& row) {
  Preset preset;
  Device& device = preset.device;
  device.name = row.name;
  device.type = row.type;
  device.memory = Bytes(static_cast<std::int64_t>(row.memory) << 30);
  const double base = row.float32 * 1e12;
  device.peak_flops = {{"default", base}, {"float32", base}};
  if (row.half > 0) device.peak_flops["float16"] = row.half * 1e12;
  if (row.bfloat16 > 0) device.peak_flops["bfloat16"] = row.bfloat16 * 1e12;
  if (row.float64 > 0) device.peak_flops["float64"] = row.float64 * 1e12;
  device.memory_bandwidth = row.memory_bandwidth * 1e9;
  device.launch = Seconds(row.launch * 1e-6);
  device.efficiency = nominal_efficiency();
  preset.host_alpha = Seconds(row.host_alpha * 1e-6);
  preset.host_bandwidth = row.host_bandwidth * 1e9;
  preset.network_alpha = Seconds(row.network_alpha * 1e-6);
  preset.network_bandwidth = row.network_bandwidth * 1e9;
  return preset;
}

// Every link alpha = beta = 1, compute 1 FLOP per second, local copies free:
// costs that can be checked by hand.
Preset unit_preset() {
  Preset preset;
  preset.device.name = "unit";
  preset.device.memory = Bytes(std::int64_t{1} << 60);
  preset.device.peak_flops = {{"default", 1.0}};
  preset.device.memory_bandwidth = kInfinity;
  preset.host_alpha = preset.network_alpha = Seconds(1.0);
  preset.host_bandwidth = preset.network_bandwidth = 1.0;
  return preset;
}

}  // namespace

const std::vector<Preset>& presets() {
  static const std::vector<Preset> all = [] {
    std::vector<Preset> list;
    for (const Row& row : kRows) list.push_back(preset_of(row));
    list.push_back(unit_preset());
    return list;
  }();
  return all;
}

const Preset* find_preset(std::string_view name) {
  for (const Preset& preset : presets()) {
    if (preset.device.name == name) return &preset;
  }
  return nullptr;
}

}  // namespace shardwright::mesh
