#include "shardwright/planner/regions.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace shardwright::planner {
namespace {

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

// Ops that compute the same: equal name, attributes and operand types.
std::vector<std::int32_t> op_classes(const ir::Graph& graph) {
  std::map<std::string, std::int32_t> known;
  std::vector<std::int32_t> out;
  out.reserve(graph.ops.size());
  for (const ir::Op& op : graph.ops) {
    std::string key = op.name + op.attrs.dump();
    for (const ValueId id : op.operands) {
      const ir::Value& value = graph.value(id);
      key += fmt::format("|{}[{}]{}", to_string(value.dtype),
                         fmt::join(value.shape, ","), to_string(value.kind));
    }
    out.push_back(known.emplace(key, static_cast<std::int32_t>(known.size()))
                      .first->second);
  }
  return out;
}

struct Run {
  std::int32_t first = 0;
  std::int32_t period = 0;
  std::int32_t count = 0;
  [[nodiscard]] std::int32_t length() const { return period * count; }
};

// The longest run classes[i] == classes[i + period] gives, as whole periods.
// Ties: the shorter period, then the earlier start.
Run longest_run(const std::vector<std::int32_t>& classes, std::int32_t begin,
                std::int32_t end) {
  constexpr std::int32_t kMinPeriod = 4;  // shorter repeats are not blocks
  Run best;
  const std::int32_t size = end - begin;
  for (std::int32_t period = kMinPeriod; period <= size / 2; ++period) {
    std::int32_t matched = 0;
    for (std::int32_t i = begin; i + period <= end; ++i) {
      const bool equal =
          i + period < end && classes[at(i)] == classes[at(i + period)];
      if (equal) {
        ++matched;
        continue;
      }
      const std::int32_t count = matched / period + 1;
      if (count >= 2 && period * count > best.length()) {
        best = Run{i - matched, period, count};
      }
      matched = 0;
    }
  }
  return best;
}

std::string shared_module(const ir::Graph& graph, std::int32_t first,
                          std::int32_t last) {
  std::string shared;
  bool any = false;
  for (std::int32_t i = first; i < last; ++i) {
    const std::string& module = graph.ops[at(i)].module;
    if (module.empty()) continue;
    if (!any) {
      shared = module;
      any = true;
      continue;
    }
    while (!shared.empty() && module != shared &&
           module.rfind(shared + ".", 0) != 0) {
      const auto dot = shared.rfind('.');
      shared = dot == std::string::npos ? "" : shared.substr(0, dot);
    }
  }
  return shared;
}

// A run can start anywhere inside its period; the best cut is where the
// fewest activations cross (a transformer's residual stream: one).
std::int32_t best_phase(const ir::Graph& graph, const Run& run) {
  std::vector<std::int32_t> last_read(graph.values.size(), -1);
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    for (const ValueId id : graph.ops[i].operands) {
      last_read[id.index()] = static_cast<std::int32_t>(i);
    }
  }
  const auto crossing = [&](std::int32_t cut) {
    std::int64_t bytes = 0;
    for (const ir::Value& value : graph.values) {
      if (!value.producer.valid() || !value.requires_grad) continue;
      const auto index = static_cast<std::size_t>(&value - graph.values.data());
      if (value.producer.value < cut && last_read[index] >= cut) {
        bytes += value.bytes();
      }
    }
    return bytes;
  };
  std::int32_t best = 0;
  std::int64_t best_bytes = -1;
  for (std::int32_t phase = 0; phase < run.period; ++phase) {
    const std::int64_t bytes = crossing(run.first + phase);
    if (best_bytes < 0 || bytes < best_bytes) {
      best_bytes = bytes;
      best = phase;
    }
  }
  return best;
}

// Pieces of about equal saved bytes for a stretch without repetition.
void add_pieces(const ir::Graph& graph, std::int32_t first, std::int32_t last,
                std::vector<RegionRange>& out) {
  constexpr std::int32_t kMinOps = 4;     // a smaller piece frees nothing
  constexpr std::int64_t kMaxPieces = 8;  // about sqrt of a 64-op stretch
  if (last - first < kMinOps) return;
  std::int64_t total = 0;
  std::vector<std::int64_t> weight;
  for (std::int32_t i = first; i < last; ++i) {
    std::int64_t bytes = 0;
    for (const ValueId id : graph.ops[at(i)].results) {
      if (graph.value(id).requires_grad) bytes += graph.value(id).bytes();
    }
    weight.push_back(bytes);
    total += bytes;
  }
  if (total == 0) return;
  const std::int64_t pieces =
      std::clamp<std::int64_t>((last - first) / (2 * kMinOps), 1, kMaxPieces);
  std::int64_t so_far = 0;
  std::int32_t start = first;
  for (std::int32_t i = first; i < last; ++i) {
    so_far += weight[at(i - first)];
    const bool full = so_far * pieces >= total;
    if ((full && i + 1 - start >= kMinOps && last - i - 1 >= kMinOps) ||
        i + 1 == last) {
      out.push_back(
          RegionRange{start, i + 1, shared_module(graph, start, i + 1), -1});
      start = i + 1;
      so_far = 0;
    }
  }
}

void split(const ir::Graph& graph, const std::vector<std::int32_t>& classes,
           std::int32_t begin, std::int32_t end, std::int32_t& next_class,
           std::vector<RegionRange>& out) {
  const Run run = longest_run(classes, begin, end);
  if (run.count < 2) {
    add_pieces(graph, begin, end, out);
    return;
  }
  Run blocks = run;
  const std::int32_t phase = best_phase(graph, run);
  if (phase != 0) {
    blocks.first += phase;
    blocks.count = (run.length() - phase) / run.period;
  }
  split(graph, classes, begin, blocks.first, next_class, out);
  const std::int32_t id = next_class++;
  for (std::int32_t k = 0; k < blocks.count; ++k) {
    const std::int32_t first = blocks.first + k * blocks.period;
    out.push_back(
        RegionRange{first, first + blocks.period,
                    shared_module(graph, first, first + blocks.period), id});
  }
  split(graph, classes, blocks.first + blocks.length(), end, next_class, out);
}

}  // namespace

std::vector<RegionRange> find_regions(const ir::Graph& graph) {
  std::vector<RegionRange> out;
  std::int32_t next_class = 0;
  split(graph, op_classes(graph), 0,
        static_cast<std::int32_t>(graph.ops.size()), next_class, out);
  return out;
}

}  // namespace shardwright::planner
