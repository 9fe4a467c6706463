// What a user may ask of the planner.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "shardwright/base/json.h"
#include "shardwright/base/result.h"

namespace shardwright::planner {

// Forces a part of the answer. `target` is matched as a glob ('*', '?').
//  placement: the spec of the result of every op whose key, or whose module
//             path, matches; "..." stands for "the rest not split":
//             "[a, ...]".
//  storage:   the storage spec of every parameter whose name matches.
//  recompute: "true" or "false" for every region whose module path matches.
struct Pin {
  enum class Kind { kPlacement, kStorage, kRecompute };
  Kind kind = Kind::kPlacement;
  std::string target;
  std::string spec;
};

struct PlanOptions {
  std::string optimizer = "adamw";
  std::optional<std::int64_t> memory_limit_bytes;
  std::vector<Pin> pins;
  double gap = 1e-3;
  double time_limit_s = 60;
  std::uint64_t seed = 0;
  bool recompute = true;  // false: no region may be recomputed
  std::function<bool()> interrupted;
  std::function<void(const std::string&)> progress;
};

// {"optimizer", "memory_limit_bytes", "pins": [{"kind", "target", "spec"}],
//  "gap", "time_limit_s", "seed", "recompute"}; every key optional, unknown
// keys refused by name.
Result<PlanOptions> options_from_json(const Json& json);

// '*' any run of characters, '?' one; nothing else is special.
bool glob_match(const std::string& pattern, const std::string& text);

}  // namespace shardwright::planner
