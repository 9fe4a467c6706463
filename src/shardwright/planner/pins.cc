#include "shardwright/planner/pins.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace shardwright::planner {
namespace {

// "..." stands for as many unsplit dims as the tensor's rank leaves.
std::string with_dots_filled(std::string text, std::size_t rank) {
  const auto dots = text.find("...");
  if (dots == std::string::npos) return text;
  const auto end = text.find(']', dots);
  const auto commas =
      std::count(text.begin(),
                 end == std::string::npos
                     ? text.end()
                     : text.begin() + static_cast<std::ptrdiff_t>(end),
                 ',');
  const auto given = static_cast<std::size_t>(commas);
  if (rank > given) {
    const std::vector<std::string> rest(rank - given, "-");
    return text.replace(dots, 3, fmt::format("{}", fmt::join(rest, ", ")));
  }
  // Nothing is left: a comma goes as well, the one before if there is one.
  const auto before = text.rfind(',', dots);
  if (before != std::string::npos) {
    return text.erase(before, dots + 3 - before);
  }
  const auto after = text.find(',', dots);
  return after == std::string::npos ? text.erase(dots, 3)
                                    : text.erase(dots, after + 1 - dots);
}

Result<sharding::ShardingSpec> pinned_spec(const Model& model, const Pin& pin,
                                           std::size_t rank) {
  const std::string text = with_dots_filled(pin.spec, rank);
  auto spec = sharding::parse_spec(text, model.mesh);
  if (!spec) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("[planner] pin '{}': {}", pin.target,
                                  spec.error().message));
  }
  return *spec;
}

bool matches_op(const Pin& pin, const ir::Op& op) {
  return pin.kind == Pin::Kind::kPlacement &&
         (glob_match(pin.target, op.key) || glob_match(pin.target, op.module));
}

bool matches_parameter(const Pin& pin, const ir::Value& parameter) {
  return pin.kind == Pin::Kind::kStorage &&
         std::any_of(parameter.names.begin(), parameter.names.end(),
                     [&](const std::string& name) {
                       return glob_match(pin.target, name);
                     });
}

bool matches_region(const Pin& pin, const RegionRange& region) {
  return pin.kind == Pin::Kind::kRecompute &&
         glob_match(pin.target, region.name);
}

}  // namespace

Result<std::vector<bool>> allowed_fates(const Model& model,
                                        std::int32_t region) {
  if (region < 0) return std::vector<bool>{false};
  for (const Pin& pin : model.options.pins) {
    if (matches_region(pin, model.regions[static_cast<std::size_t>(region)])) {
      return std::vector<bool>{pin.spec == "true"};
    }
  }
  return std::vector<bool>{false, true};
}

Result<bool> placement_allowed(const Model& model, OpId op,
                               const strategy::Strategy& strategy) {
  const ir::Op& entry = model.graph->op(op);
  for (const Pin& pin : model.options.pins) {
    if (!matches_op(pin, entry)) continue;
    for (std::size_t r = 0; r < entry.results.size(); ++r) {
      const std::size_t rank =
          model.graph->value(entry.results[r]).shape.size();
      // A pin with more dims than the tensor speaks of other tensors.
      auto wanted = pinned_spec(model, pin, rank);
      if (!wanted) return tl::unexpected(wanted.error());
      if (wanted->dims.size() != rank) continue;
      if (sharding::forward_spec(strategy.results[r], rank) != *wanted) {
        return false;
      }
    }
  }
  return true;
}

bool placement_pinned(const Model& model, OpId op) {
  const auto& pins = model.options.pins;
  return std::any_of(pins.begin(), pins.end(), [&](const Pin& pin) {
    return matches_op(pin, model.graph->op(op));
  });
}

Result<bool> storage_allowed(const Model& model, const ir::Value& parameter,
                             const sharding::Port& storage) {
  for (const Pin& pin : model.options.pins) {
    if (!matches_parameter(pin, parameter)) continue;
    const std::size_t rank = parameter.shape.size();
    SW_ASSIGN_OR_RETURN(const sharding::ShardingSpec wanted,
                        pinned_spec(model, pin, rank));
    return wanted.dims.size() == rank &&
           sharding::forward_spec(storage, rank) == wanted;
  }
  return true;
}

namespace {

// A placement speaks of the matching results of its rank. Pins of one target
// may speak of different ranks; that none of them fits is an error.
Result<bool> check_placement_rank(const Model& model, const Pin& pin) {
  const ir::Graph& graph = *model.graph;
  std::optional<std::size_t> other;
  const auto fits = [&](const Pin& candidate,
                        std::size_t rank) -> Result<bool> {
    if (candidate.target != pin.target || candidate.kind != pin.kind) {
      return false;
    }
    SW_ASSIGN_OR_RETURN(const sharding::ShardingSpec wanted,
                        pinned_spec(model, candidate, rank));
    return wanted.dims.size() == rank;
  };
  for (const ir::Op& op : graph.ops) {
    if (!matches_op(pin, op)) continue;
    for (const ValueId id : op.results) {
      const std::size_t rank = graph.value(id).shape.size();
      for (const Pin& candidate : model.options.pins) {
        SW_ASSIGN_OR_RETURN(const bool found, fits(candidate, rank));
        if (found) return true;
      }
      if (!other) other = rank;
    }
  }
  if (!other) return true;
  return make_error(
      ErrorCode::kInvalidArgument,
      fmt::format(
          "[planner] pin '{}': expected as many entries as a matching "
          "result has dims (the first has {}), got '{}'. Try: '...' for "
          "the dims that are not split.",
          pin.target, *other, pin.spec));
}

}  // namespace

Result<bool> check_pins(const Model& model) {
  const ir::Graph& graph = *model.graph;
  for (const Pin& pin : model.options.pins) {
    bool found = false;
    for (const ir::Op& op : graph.ops) found = found || matches_op(pin, op);
    for (const ir::Value& value : graph.values) {
      if (value.kind != ir::ValueKind::kParameter) continue;
      found = found || matches_parameter(pin, value);
    }
    for (std::size_t r = 0; r < model.regions.size(); ++r) {
      if (!matches_region(pin, model.regions[r])) continue;
      if (pin.spec == "true" && !model.recomputable[r]) {
        return make_error(
            ErrorCode::kInvalidArgument,
            fmt::format("[planner] pin '{}': region '{}' cannot be "
                        "recomputed (it depends on a buffer that the step "
                        "changes, saves nothing, or recompute is off)",
                        pin.target, model.regions[r].name));
      }
      found = true;
    }
    SW_RETURN_IF_ERROR(check_placement_rank(model, pin));
    if (!found) {
      return make_error(
          ErrorCode::kInvalidArgument,
          fmt::format("[planner] pin '{}' matches nothing in the model. Try: "
                      "a module path such as 'transformer.h.0.mlp', or a glob "
                      "such as '*.weight'.",
                      pin.target));
    }
  }
  return true;
}

}  // namespace shardwright::planner
