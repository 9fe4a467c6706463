#include "shardwright/rules/rule.h"

#include <algorithm>
#include <set>

#include "shardwright/rules/op_view.h"
#include "shardwright/rules/registry.h"

namespace shardwright::rules {
namespace {

constexpr std::string_view kNamespace = "aten.";

// A buffer lives whole on every rank. An op that writes one may be split only
// by a rule that knows how all ranks write the same (batch_norm); any other
// runs whole.
bool writes_are_handled(const ir::Op& op) {
  return !op.effect || op.base_name() == "batch_norm";
}

Rule without_splits(const OpView& op, const Rule& rule) {
  Rule out;
  out.name = rule.name;
  const auto whole = [](const ir::Value& value) {
    std::vector<DimFactor> dims;
    for (const std::int64_t size : value.shape) dims.push_back({-1, size});
    return dims;
  };
  for (std::size_t i = 0; i < op.num_operands(); ++i) {
    out.operands.push_back(whole(op.operand(i)));
  }
  for (std::size_t i = 0; i < op.num_results(); ++i) {
    out.results.push_back(whole(op.result(i)));
  }
  return out;
}

// Ranks that hold different parts of a random result must draw differently.
void mark_random(Rule& rule) {
  for (Factor& factor : rule.factors) {
    if (factor.variant.empty() && !factor.contracted) factor.variant = "random";
  }
}

Json dims_json(const std::vector<std::vector<DimFactor>>& tensors) {
  Json out = Json::array();
  for (const auto& dims : tensors) {
    Json list = Json::array();
    for (const DimFactor& dim : dims) {
      list.push_back({{"factor", dim.factor}, {"times", dim.times}});
    }
    out.push_back(std::move(list));
  }
  return out;
}

Json rule_json(const Rule& rule) {
  Json factors = Json::array();
  std::set<std::string> variants;
  for (const Factor& factor : rule.factors) {
    factors.push_back({{"name", factor.name}, {"size", factor.size}});
    if (!factor.variant.empty()) variants.insert(factor.variant);
  }
  Json attrs = Json::object();
  for (const auto& [name, dim] : rule.attr_factors) {
    attrs[name] = {{"factor", dim.factor}, {"times", dim.times}};
  }
  return {{"rule", rule.name.empty() ? Json() : Json(rule.name)},
          {"factors", std::move(factors)},
          {"operands", dims_json(rule.operands)},
          {"results", dims_json(rule.results)},
          {"attr_factors", std::move(attrs)},
          {"variants", variants}};
}

// The rule function of an op; "add_" on a buffer (an effect) has that of "add".
RuleFunction function_of(const ir::Op& op) {
  const std::string name = op.base_name();
  RuleFunction function = registry().find(name);
  if (function == nullptr && op.effect && name.ends_with('_')) {
    function = registry().find(name.substr(0, name.size() - 1));
  }
  return function;
}

}  // namespace

bool Rule::is_side_result(std::size_t position) const {
  return std::find(side_results.begin(), side_results.end(),
                   static_cast<std::int32_t>(position)) != side_results.end();
}

std::optional<Rule> rule_of(const ir::Graph& graph, const ir::Op& op) {
  if (!op.name.starts_with(kNamespace) || op.results.empty()) {
    return std::nullopt;
  }
  const RuleFunction function = function_of(op);
  if (function == nullptr) return std::nullopt;
  const OpView view(graph, op);
  std::optional<Rule> rule = function(view);
  if (!rule) return std::nullopt;
  if (!writes_are_handled(op)) return without_splits(view, *rule);
  if (op.random) mark_random(*rule);
  return rule;
}

std::vector<std::string> ops_with_rules() {
  std::vector<std::string> names;
  for (const auto& [name, function] : registry().all()) names.push_back(name);
  return names;
}

Json factor_maps(const ir::Graph& graph) {
  Json out = Json::array();
  for (const ir::Op& op : graph.ops) {
    const std::optional<Rule> rule = rule_of(graph, op);
    out.push_back(
        rule_json(rule ? *rule : without_splits(OpView(graph, op), Rule())));
  }
  return out;
}

}  // namespace shardwright::rules
