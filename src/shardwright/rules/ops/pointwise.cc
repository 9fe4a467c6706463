// Elementwise ops: a factor per result dim, operands broadcast onto it.
//
// Partial operands pass only where the op is linear in them: sums need all
// addends Partial, products one factor. A delayed gradient passes through any
// of the cheap linear ones.
#include <algorithm>

#include "shardwright/rules/builder.h"
#include "shardwright/rules/registry.h"

namespace shardwright::rules {
namespace {

std::optional<Rule> pointwise(const OpView& op) {
  if (op.num_results() != 1) return std::nullopt;
  return pointwise_rule(op, "pointwise").build();
}

bool all_floating(const OpView& op) {
  for (std::size_t i = 0; i < op.num_operands(); ++i) {
    if (!ir::is_floating(op.operand(i).dtype)) return false;
  }
  return ir::is_floating(op.result().dtype);
}

std::vector<std::int32_t> one(std::int32_t position) { return {position}; }

// Copies and sign changes.
std::optional<Rule> copy(const OpView& op) {
  RuleBuilder rule = pointwise_rule(op, "copy");
  if (op.num_operands() == 1 && all_floating(op)) {
    rule.term(one(0)).linear().delayed();
  }
  return rule.build();
}

// A cast sums after the change of type: allowed only towards wider types, so
// that splitting never adds up in less precision than one device has.
std::optional<Rule> cast(const OpView& op) {
  RuleBuilder rule(op, "cast");
  const Shape& shape = op.result().shape;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    rule.free_dim(0, static_cast<std::int64_t>(d),
                  static_cast<std::int64_t>(d));
  }
  // `other` of type_as and to.other lends its type only; it follows when it
  // has the same shape.
  for (std::size_t i = 1; i < op.num_operands(); ++i) {
    if (op.operand(i).shape == shape) {
      rule.broadcast(static_cast<std::int64_t>(i));
    }
  }
  if (all_floating(op)) {
    const std::int64_t from = ir::size_of(op.operand(0).dtype);
    const std::int64_t to = ir::size_of(op.result().dtype);
    rule.term(one(0));
    if (to >= from) rule.linear();
    if (to <= from) rule.delayed();
  }
  return rule.build();
}

// add, sub, rsub. With a number as addend the op is affine: no Partial.
std::optional<Rule> add(const OpView& op) {
  RuleBuilder rule = pointwise_rule(op, "add");
  if (!all_floating(op)) return rule.build();
  if (op.num_operands() == 2) rule.term(one(0)).term(one(1)).linear();
  return rule.delayed().build();
}

// A product is cheap and linear where the other side is a number or a tensor
// that needs no gradient; Partial goes through the first side then.
std::optional<Rule> mul(const OpView& op) {
  RuleBuilder rule = pointwise_rule(op, "mul");
  if (!all_floating(op)) return rule.build();
  if (op.num_operands() == 1) {
    return rule.term(one(0)).linear().delayed().build();
  }
  const bool first = op.operand(0).requires_grad;
  const bool second = op.operand(1).requires_grad;
  if (first && second) return rule.build();
  if (op.op().operands[0] == op.op().operands[1]) return rule.build();
  const bool commutes = op.base_name() == "mul";
  if (!second) return rule.term({0, 1}).linear().delayed().build();
  if (commutes) return rule.term({1, 0}).linear().delayed().build();
  return rule.build();
}

std::optional<Rule> div(const OpView& op) {
  const bool rounds = op.has_attr("rounding_mode");
  return rounds ? pointwise(op) : mul(op);
}

std::optional<Rule> dropout(const OpView& op) {
  RuleBuilder rule = pointwise_rule(op, "dropout");
  const bool draws =
      op.attr_bool("train", true) && op.attr_double("p", 0.5) > 0.0;
  const auto rank = static_cast<std::int32_t>(op.result().shape.size());
  for (std::int32_t d = 0; draws && d < rank; ++d) {
    rule.at(d).variant = "random";
  }
  return rule.build();
}

// One coin per sample and channel: the other dims share it.
std::optional<Rule> feature_dropout(const OpView& op) {
  RuleBuilder rule(op, "feature_dropout");
  const std::size_t rank = op.result().shape.size();
  for (std::size_t d = 0; d < std::min<std::size_t>(rank, 2); ++d) {
    const auto dim = static_cast<std::int64_t>(d);
    const std::int32_t added = rule.free_dim(0, dim, dim);
    const bool draws =
        op.attr_bool("train", true) && op.attr_double("p", 0.5) > 0.0;
    if (draws) rule.at(added).variant = "random";
  }
  return rule.build();
}

// The slope is one number, or one per channel (dim 1).
std::optional<Rule> prelu(const OpView& op) {
  RuleBuilder rule(op, "prelu");
  const std::size_t rank = op.result().shape.size();
  const Shape& weight = op.operand(1).shape;
  for (std::size_t d = 0; d < rank; ++d) {
    const auto dim = static_cast<std::int64_t>(d);
    const std::int32_t added = rule.free_dim(0, dim, dim);
    if (d == 1 && weight.size() == 1 && weight[0] > 1) {
      rule.operand(1, 0, added);
    }
  }
  return rule.build();
}

}  // namespace

void add_pointwise_rules(Registry& registry) {
  registry.add(
      {"abs",        "acos",        "acosh",      "angle",       "asin",
       "asinh",      "atan",        "atanh",      "bitwise_not", "ceil",
       "celu",       "cos",         "cosh",       "deg2rad",     "digamma",
       "elu",        "erf",         "erfc",       "erfinv",      "exp",
       "exp2",       "expm1",       "floor",      "frac",        "gelu",
       "hardshrink", "hardsigmoid", "hardswish",  "hardtanh",    "isfinite",
       "isinf",      "isnan",       "leaky_relu", "lgamma",      "log",
       "log10",      "log1p",       "log2",       "log_sigmoid", "logical_not",
       "logit",      "mish",        "nan_to_num", "reciprocal",  "relu",
       "relu6",      "round",       "rsqrt",      "selu",        "sgn",
       "sigmoid",    "sign",        "signbit",    "silu",        "sin",
       "sinc",       "sinh",        "softplus",   "softshrink",  "sqrt",
       "square",     "tan",         "tanh",       "threshold",   "trunc",
       "zero"},
      pointwise);
  registry.add(
      {"__and__",     "__lshift__",   "__or__",    "__rshift__",  "__xor__",
       "addcdiv",     "addcmul",      "atan2",     "bitwise_and", "bitwise_or",
       "bitwise_xor", "clamp",        "clamp_max", "clamp_min",   "clip",
       "complex",     "copy",         "copysign",  "eq",          "fill",
       "float_power", "floor_divide", "fmax",      "fmin",        "fmod",
       "ge",          "gt",           "heaviside", "hypot",       "isclose",
       "le",          "lerp",         "logaddexp", "logaddexp2",  "logical_and",
       "logical_or",  "logical_xor",  "lt",        "masked_fill", "maximum",
       "minimum",     "ne",           "polar",     "pow",         "remainder",
       "where",       "xlogy"},
      pointwise);
  registry.add({"zeros_like", "ones_like", "full_like", "empty_like",
                "exponential", "normal_functional", "uniform", "rand_like",
                "randn_like", "randint_like", "bernoulli"},
               pointwise);
  registry.add({"alias", "clone", "contiguous", "detach", "lift_fresh",
                "lift_fresh_copy", "neg", "negative", "positive"},
               copy);
  registry.add({"to", "_to_copy", "type_as"}, cast);
  registry.add({"add", "sub", "subtract", "rsub"}, add);
  registry.add({"mul", "multiply"}, mul);
  registry.add({"div", "divide", "true_divide"}, div);
  registry.add({"dropout", "alpha_dropout", "native_dropout"}, dropout);
  registry.add({"feature_dropout", "feature_alpha_dropout"}, feature_dropout);
  registry.add({"prelu"}, prelu);
}

}  // namespace shardwright::rules
