// Enumeration: the product of the axes' modes, filtered.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "shardwright/base/check.h"
#include "shardwright/strategy/axis_mode.h"
#include "shardwright/strategy/strategy.h"
#include "shardwright/strategy/variant.h"

namespace shardwright::strategy {
namespace {

using rules::Factor;
using rules::Rule;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

// Size on coordinate 0 after splitting over the axes, major first; nullopt when
// some rank would get nothing, or an unequal part where that is not allowed.
// `sizes` holds the distinct part sizes so far: a chunk makes at most two.
std::optional<std::int64_t> split_size(const Factor& factor,
                                       const std::vector<std::int64_t>& ranks) {
  std::set<std::int64_t> sizes = {factor.size};
  for (const std::int64_t w : ranks) {
    std::set<std::int64_t> parts;
    for (const std::int64_t size : sizes) {
      const std::int64_t part = ceil_div(size, w);
      const std::int64_t last = size - part * (w - 1);
      if (last < 1) return std::nullopt;
      parts.insert({part, last});
    }
    sizes = std::move(parts);
  }
  if (factor.even_only && sizes.size() > 1) return std::nullopt;
  return *sizes.rbegin();
}

bool assign_local_factors(const Rule& rule, const mesh::DeviceMesh& mesh,
                          Strategy& strategy) {
  for (std::size_t f = 0; f < rule.factors.size(); ++f) {
    std::vector<std::int64_t> ranks;
    for (std::size_t a = 0; a < mesh.axes.size(); ++a) {
      if (strategy.factor_of_axis[a] == static_cast<std::int32_t>(f)) {
        ranks.push_back(mesh.axes[a].size);
      }
    }
    const auto size = split_size(rule.factors[f], ranks);
    if (!size) return false;
    strategy.local_factors.push_back(*size);
  }
  return true;
}

// Attributes whose factor is split; "sizes[0]" replaces one entry of a list.
Json local_attrs(const ir::Op& op, const Rule& rule, const Strategy& strategy) {
  Json out = Json::object();
  for (const auto& [name, dim] : rule.attr_factors) {
    const auto factor = static_cast<std::size_t>(dim.factor);
    if (strategy.local_factors[factor] == rule.factors[factor].size) continue;
    const std::int64_t value = strategy.local_factors[factor] * dim.times;
    const auto bracket = name.find('[');
    if (bracket == std::string::npos) {
      out[name] = value;
      continue;
    }
    const std::string list = name.substr(0, bracket);
    if (!out.contains(list)) out[list] = op.attrs.at(list);
    out[list][std::stoul(name.substr(bracket + 1))] = value;
  }
  return out;
}

std::string describe(const Rule& rule, const mesh::DeviceMesh& mesh,
                     const Strategy& strategy) {
  std::vector<std::string> parts;
  for (std::size_t a = 0; a < mesh.axes.size(); ++a) {
    const std::int32_t mode = strategy.factor_of_axis[a];
    if (mode == kWhole) continue;
    const std::string what =
        mode == kPartial   ? "partial"
        : mode == kDelayed ? "delayed"
                           : rule.factors[static_cast<std::size_t>(mode)].name;
    parts.push_back(fmt::format("{} -> {}", mesh.axes[a].name, what));
  }
  return parts.empty() ? "replicate"
                       : fmt::format("{}", fmt::join(parts, ", "));
}

// A tensor read twice is one reader: it arrives in one layout.
bool same_tensor_same_port(const ir::Op& op, const Strategy& strategy) {
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (op.operands[i] == op.operands[j] &&
          strategy.operands[i] != strategy.operands[j]) {
        return false;
      }
    }
  }
  return true;
}

std::vector<sharding::Port> ports(
    const std::vector<const AxisMode*>& modes,
    std::vector<sharding::Symbol> AxisMode::*symbols) {
  std::vector<sharding::Port> out((modes.front()->*symbols).size());
  for (const AxisMode* mode : modes) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i].push_back((mode->*symbols)[i]);
    }
  }
  return out;
}

std::optional<Strategy> make_strategy(
    const ir::Graph& graph, const ir::Op& op, const Rule& rule,
    const mesh::DeviceMesh& mesh, const std::vector<const AxisMode*>& modes) {
  Strategy strategy;
  for (const AxisMode* mode : modes) {
    strategy.factor_of_axis.push_back(mode->mode);
  }
  strategy.operands = ports(modes, &AxisMode::operands);
  strategy.results = ports(modes, &AxisMode::results);
  if (!same_tensor_same_port(op, strategy) ||
      !assign_local_factors(rule, mesh, strategy) ||
      !assign_variant(graph, op, rule, mesh, strategy)) {
    return std::nullopt;
  }
  strategy.local_attrs = local_attrs(op, rule, strategy);
  strategy.text = describe(rule, mesh, strategy);
  return strategy;
}

// A rule without factors: every tensor whole.
Rule whole_rule(const ir::Graph& graph, const ir::Op& op) {
  Rule rule;
  const auto dims = [&](ValueId id) {
    std::vector<rules::DimFactor> out;
    for (const std::int64_t size : graph.value(id).shape) {
      out.push_back({-1, size});
    }
    return out;
  };
  for (const ValueId id : op.operands) rule.operands.push_back(dims(id));
  for (const ValueId id : op.results) rule.results.push_back(dims(id));
  return rule;
}

// The next choice of one mode per axis, last axis fastest; false at the end.
// An axis of one rank has nothing to split and stays at mode 0.
bool advance(std::vector<std::size_t>& choice, std::size_t num_modes,
             const mesh::DeviceMesh& mesh) {
  for (std::size_t a = choice.size(); a-- > 0;) {
    if (mesh.axes[a].size > 1 && ++choice[a] < num_modes) return true;
    choice[a] = 0;
  }
  return false;
}

}  // namespace

StrategySet enumerate_strategies(const ir::Graph& graph, const ir::Op& op,
                                 const std::optional<Rule>& rule,
                                 const mesh::DeviceMesh& mesh) {
  SW_CHECK(!mesh.axes.empty(), "a mesh needs an axis");
  const Rule used = rule ? *rule : whole_rule(graph, op);
  const std::vector<AxisMode> modes = axis_modes(graph, op, used);
  StrategySet set;
  set.has_rule = rule.has_value();
  std::set<std::pair<std::vector<sharding::Port>, std::vector<sharding::Port>>>
      seen;
  std::vector<std::size_t> choice(mesh.axes.size(), 0);
  do {
    std::vector<const AxisMode*> chosen;
    chosen.reserve(choice.size());
    for (const std::size_t mode : choice) chosen.push_back(&modes[mode]);
    auto strategy = make_strategy(graph, op, used, mesh, chosen);
    if (strategy &&
        seen.emplace(strategy->operands, strategy->results).second) {
      set.strategies.push_back(std::move(*strategy));
    }
  } while (advance(choice, modes.size(), mesh));
  SW_CHECK(!set.strategies.empty(), "no strategy for " + op.key);
  return set;
}

}  // namespace shardwright::strategy
