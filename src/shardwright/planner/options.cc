#include "shardwright/planner/options.h"

#include <fmt/format.h>

#include <set>

namespace shardwright::planner {
namespace {

Result<Pin> pin_from_json(const Json& json, const std::string& where) {
  Pin pin;
  SW_ASSIGN_OR_RETURN(const std::string kind, get_string(json, "kind", where));
  if (kind == "placement") {
    pin.kind = Pin::Kind::kPlacement;
  } else if (kind == "storage") {
    pin.kind = Pin::Kind::kStorage;
  } else if (kind == "recompute") {
    pin.kind = Pin::Kind::kRecompute;
  } else {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("[planner] {}: unknown kind of pin '{}'. "
                                  "Try: placement, storage or recompute.",
                                  where, kind));
  }
  SW_ASSIGN_OR_RETURN(pin.target, get_string(json, "target", where));
  SW_ASSIGN_OR_RETURN(pin.spec, get_string(json, "spec", where));
  if (pin.kind == Pin::Kind::kRecompute && pin.spec != "true" &&
      pin.spec != "false") {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("[planner] {}: a recompute pin is \"true\" or \"false\", "
                    "got \"{}\"",
                    where, pin.spec));
  }
  return pin;
}

Result<bool> check_keys(const Json& json) {
  static const std::set<std::string> kKeys = {
      "optimizer", "memory_limit_bytes", "pins", "gap", "time_limit_s",
      "seed",      "recompute"};
  if (!json.is_object()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "[planner] options must be an object");
  }
  for (const auto& [key, value] : json.items()) {
    if (!kKeys.contains(key)) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("[planner] unknown option '{}'", key));
    }
  }
  return true;
}

}  // namespace

Result<PlanOptions> options_from_json(const Json& json) {
  SW_RETURN_IF_ERROR(check_keys(json));
  PlanOptions options;
  const std::string where = "planner options";
  if (json.contains("optimizer")) {
    SW_ASSIGN_OR_RETURN(options.optimizer,
                        get_string(json, "optimizer", where));
  }
  if (json.contains("memory_limit_bytes") &&
      !json["memory_limit_bytes"].is_null()) {
    SW_ASSIGN_OR_RETURN(const std::int64_t limit,
                        get_int(json, "memory_limit_bytes", where));
    if (limit <= 0) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("[planner] the memory limit must be "
                                    "positive, got {} bytes",
                                    limit));
    }
    options.memory_limit_bytes = limit;
  }
  if (json.contains("gap")) {
    SW_ASSIGN_OR_RETURN(options.gap, get_double(json, "gap", where));
  }
  if (json.contains("time_limit_s")) {
    SW_ASSIGN_OR_RETURN(options.time_limit_s,
                        get_double(json, "time_limit_s", where));
  }
  if (json.contains("seed")) {
    SW_ASSIGN_OR_RETURN(const std::int64_t seed, get_int(json, "seed", where));
    options.seed = static_cast<std::uint64_t>(seed);
  }
  if (json.contains("recompute")) {
    SW_ASSIGN_OR_RETURN(options.recompute, get_bool(json, "recompute", where));
  }
  if (json.contains("pins")) {
    SW_ASSIGN_OR_RETURN(const Json* pins, get_array(json, "pins", where));
    for (std::size_t i = 0; i < pins->size(); ++i) {
      SW_ASSIGN_OR_RETURN(Pin pin,
                          pin_from_json((*pins)[i], fmt::format("pin {}", i)));
      options.pins.push_back(std::move(pin));
    }
  }
  return options;
}

bool glob_match(const std::string& pattern, const std::string& text) {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string::npos;
  std::size_t resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && (pattern[p] == text[t] || pattern[p] == '?')) {
      ++p;
      ++t;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (star != std::string::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace shardwright::planner
