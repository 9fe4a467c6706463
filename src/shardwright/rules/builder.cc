#include "shardwright/rules/builder.h"

#include <fmt/format.h>

#include <algorithm>

namespace shardwright::rules {
namespace {

std::vector<DimFactor> whole(const Shape& shape) {
  std::vector<DimFactor> dims;
  dims.reserve(shape.size());
  for (const std::int64_t size : shape) dims.push_back({-1, size});
  return dims;
}

bool has_factor(const std::vector<DimFactor>& dims, std::int32_t factor) {
  return std::any_of(dims.begin(), dims.end(), [&](const DimFactor& dim) {
    return dim.factor == factor;
  });
}

bool sizes_match(const Rule& rule, const std::vector<DimFactor>& dims,
                 const Shape& shape) {
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const DimFactor& dim = dims[d];
    const std::int64_t size =
        dim.factor < 0
            ? 1
            : rule.factors[static_cast<std::size_t>(dim.factor)].size;
    if (size * dim.times != shape[d]) return false;
  }
  return true;
}

// Rewrites the dims for the factors that stay: `kept[f]` is the new index of
// factor f, or -1 when it is dropped.
void renumber(std::vector<DimFactor>& dims, const std::vector<Factor>& factors,
              const std::vector<std::int32_t>& kept) {
  for (DimFactor& dim : dims) {
    if (dim.factor < 0) continue;
    const auto old = static_cast<std::size_t>(dim.factor);
    dim.factor = kept[old];
    if (kept[old] < 0) dim.times *= factors[old].size;
  }
}

// Size 1 has nothing to split and size 0 is an empty tensor.
void drop_trivial_factors(Rule& rule) {
  std::vector<std::int32_t> kept;
  std::vector<Factor> factors;
  for (const Factor& factor : rule.factors) {
    const bool keep = factor.size > 1;
    kept.push_back(keep ? static_cast<std::int32_t>(factors.size()) : -1);
    if (keep) factors.push_back(factor);
  }
  for (auto& dims : rule.operands) renumber(dims, rule.factors, kept);
  for (auto& dims : rule.results) renumber(dims, rule.factors, kept);
  rule.factors = std::move(factors);
  std::vector<std::pair<std::string, DimFactor>> attrs;
  for (auto& [name, dim] : rule.attr_factors) {
    if (kept[static_cast<std::size_t>(dim.factor)] < 0) continue;
    dim.factor = kept[static_cast<std::size_t>(dim.factor)];
    attrs.emplace_back(name, dim);
  }
  rule.attr_factors = std::move(attrs);
}

void mark_even_only(Rule& rule) {
  // An attribute is the same on every rank, so its factor splits evenly too.
  for (const auto& [name, dim] : rule.attr_factors) {
    rule.factors[static_cast<std::size_t>(dim.factor)].even_only = true;
  }
  for (const auto* tensors : {&rule.operands, &rule.results}) {
    for (const auto& dims : *tensors) {
      for (const DimFactor& dim : dims) {
        if (dim.factor >= 0 && dim.times > 1) {
          rule.factors[static_cast<std::size_t>(dim.factor)].even_only = true;
        }
      }
    }
  }
}

// Every result has exactly the factors that it is a map over.
bool consistent(const Rule& rule) {
  for (std::size_t f = 0; f < rule.factors.size(); ++f) {
    const Factor& factor = rule.factors[f];
    if (factor.contracted && rule.terms.empty()) return false;
    for (std::size_t r = 0; r < rule.results.size(); ++r) {
      const bool has =
          has_factor(rule.results[r], static_cast<std::int32_t>(f));
      const bool expected = !factor.contracted && !factor.result_replicated &&
                            !rule.is_side_result(r);
      if (has != expected) return false;
    }
  }
  return true;
}

}  // namespace

RuleBuilder::RuleBuilder(const OpView& op, std::string name) : op_(&op) {
  rule_.name = std::move(name);
  for (std::size_t i = 0; i < op.num_operands(); ++i) {
    rule_.operands.push_back(whole(op.operand(i).shape));
  }
  for (std::size_t i = 0; i < op.num_results(); ++i) {
    rule_.results.push_back(whole(op.result(i).shape));
  }
}

std::int32_t RuleBuilder::factor(std::string name, std::int64_t size) {
  Factor added;
  added.name = std::move(name);
  added.size = size;
  rule_.factors.push_back(std::move(added));
  return static_cast<std::int32_t>(rule_.factors.size()) - 1;
}

std::int32_t RuleBuilder::contracted(std::string name, std::int64_t size) {
  const std::int32_t added = factor(std::move(name), size);
  at(added).contracted = true;
  return added;
}

RuleBuilder& RuleBuilder::map(std::vector<std::vector<DimFactor>>& tensors,
                              std::int64_t position, std::int64_t dim,
                              std::int32_t factor, std::int64_t times) {
  if (position < 0 || position >= static_cast<std::int64_t>(tensors.size())) {
    broken_ = true;
    return *this;
  }
  auto& dims = tensors[static_cast<std::size_t>(position)];
  if (dim < 0 || dim >= static_cast<std::int64_t>(dims.size())) {
    broken_ = true;
    return *this;
  }
  dims[static_cast<std::size_t>(dim)] = {factor, times};
  return *this;
}

RuleBuilder& RuleBuilder::operand(std::int64_t position, std::int64_t dim,
                                  std::int32_t factor, std::int64_t times) {
  return map(rule_.operands, position, dim, factor, times);
}

RuleBuilder& RuleBuilder::operand(std::string_view arg, std::int64_t dim,
                                  std::int32_t factor, std::int64_t times) {
  const std::int32_t position = op_->position(arg);
  return position < 0 ? *this : operand(position, dim, factor, times);
}

RuleBuilder& RuleBuilder::result(std::int64_t position, std::int64_t dim,
                                 std::int32_t factor, std::int64_t times) {
  return map(rule_.results, position, dim, factor, times);
}

RuleBuilder& RuleBuilder::results(std::int64_t dim, std::int32_t factor,
                                  std::int64_t times) {
  for (std::size_t i = 0; i < rule_.results.size(); ++i) {
    result(static_cast<std::int64_t>(i), dim, factor, times);
  }
  return *this;
}

std::int32_t RuleBuilder::free_dim(std::int64_t position, std::int64_t dim,
                                   std::int64_t result_dim, std::string name) {
  const Shape& shape = op_->operand(static_cast<std::size_t>(position)).shape;
  if (dim < 0 || dim >= static_cast<std::int64_t>(shape.size())) {
    broken_ = true;
    return factor("broken", 1);
  }
  if (name.empty()) name = fmt::format("dim{}", result_dim);
  const std::int32_t added =
      factor(std::move(name), shape[static_cast<std::size_t>(dim)]);
  operand(position, dim, added);
  results(result_dim, added);
  return added;
}

RuleBuilder& RuleBuilder::broadcast(std::int64_t position) {
  const Shape& from = op_->operand(static_cast<std::size_t>(position)).shape;
  const Shape& to = op_->result().shape;
  if (from.size() > to.size()) {
    broken_ = true;
    return *this;
  }
  const std::size_t offset = to.size() - from.size();
  for (std::size_t d = 0; d < from.size(); ++d) {
    if (from[d] == 1) continue;
    const DimFactor& target = rule_.results[0][d + offset];
    if (from[d] != to[d + offset]) broken_ = true;
    operand(position, static_cast<std::int64_t>(d), target.factor,
            target.times);
  }
  return *this;
}

RuleBuilder& RuleBuilder::term(std::vector<std::int32_t> operands) {
  rule_.terms.push_back(std::move(operands));
  return *this;
}

RuleBuilder& RuleBuilder::side_result(std::int64_t position) {
  const auto at = static_cast<std::size_t>(position);
  broken_ = broken_ || position < 0 || at >= rule_.results.size() ||
            op_->result(at).requires_grad;
  rule_.side_results.push_back(static_cast<std::int32_t>(position));
  return *this;
}

RuleBuilder& RuleBuilder::linear() {
  rule_.linear_partial = true;
  return *this;
}

RuleBuilder& RuleBuilder::delayed() {
  rule_.delayed = true;
  return *this;
}

RuleBuilder& RuleBuilder::attr(std::string name, std::int32_t factor,
                               std::int64_t times) {
  rule_.attr_factors.emplace_back(std::move(name), DimFactor{factor, times});
  return *this;
}

RuleBuilder& RuleBuilder::variant_arg(const char* name, Json value) {
  rule_.variant_args[name] = std::move(value);
  return *this;
}

bool RuleBuilder::fits() const {
  if (broken_) return false;
  for (std::size_t i = 0; i < rule_.operands.size(); ++i) {
    if (!sizes_match(rule_, rule_.operands[i], op_->operand(i).shape)) {
      return false;
    }
  }
  for (std::size_t i = 0; i < rule_.results.size(); ++i) {
    if (!sizes_match(rule_, rule_.results[i], op_->result(i).shape)) {
      return false;
    }
  }
  return true;
}

std::optional<Rule> RuleBuilder::build() const {
  if (!fits()) return std::nullopt;
  Rule rule = rule_;
  drop_trivial_factors(rule);
  if (!consistent(rule)) return std::nullopt;
  mark_even_only(rule);
  return rule;
}

RuleBuilder pointwise_rule(const OpView& op, std::string name) {
  RuleBuilder rule(op, std::move(name));
  const Shape& shape = op.result().shape;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const auto dim = static_cast<std::int64_t>(d);
    rule.results(dim, rule.factor(fmt::format("dim{}", d), shape[d]));
  }
  for (std::size_t i = 0; i < op.num_operands(); ++i) {
    rule.broadcast(static_cast<std::int64_t>(i));
  }
  return rule;
}

}  // namespace shardwright::rules
