// Reductions. A sum is contracted over its dims and a mean is a sum divided
// by the global count; every other reduction needs its dims whole.
#include "shardwright/rules/builder.h"
#include "shardwright/rules/registry.h"

namespace shardwright::rules {
namespace {

constexpr std::int64_t kExactBytes = 4;  // float32 and wider

enum class Kind { kSum, kMean, kOther };

std::optional<Rule> reduce(const OpView& op, std::string name, Kind kind) {
  const Shape& from = op.operand(0).shape;
  const auto rank = static_cast<std::int64_t>(from.size());
  const auto reduced = op.attr_dim_mask("dim", rank);
  if (!reduced) return std::nullopt;
  const bool keeps = op.attr_bool("keepdim", false);
  RuleBuilder rule(op, std::move(name));
  std::int64_t to = 0;
  std::int64_t count = 1;
  for (std::int64_t d = 0; d < rank; ++d) {
    const auto at = static_cast<std::size_t>(d);
    if (!(*reduced)[at]) {
      rule.free_dim(0, d, to++);
      continue;
    }
    if (keeps) ++to;
    count *= from[at];
    if (kind == Kind::kOther) continue;
    const std::int32_t added =
        rule.contracted("reduced" + std::to_string(d), from[at]);
    rule.operand(0, d, added);
    if (kind == Kind::kMean) rule.at(added).variant = "scaled_mean";
  }
  if (kind == Kind::kOther) return rule.build();
  if (kind == Kind::kMean) rule.variant_arg("global_count", count);
  rule.term({0});
  // Narrowing first (dtype=) would round the addends of the sum.
  const ir::Value& operand = op.operand(0);
  const ir::Value& result = op.result();
  if (ir::is_floating(operand.dtype) &&
      ir::size_of(result.dtype) >= ir::size_of(operand.dtype)) {
    rule.linear();
  }
  return rule.build();
}

std::optional<Rule> sum(const OpView& op) {
  return reduce(op, "sum", Kind::kSum);
}

// The local sum before the division may overflow half precision.
std::optional<Rule> mean(const OpView& op) {
  const bool exact = ir::size_of(op.result().dtype) >= kExactBytes;
  return reduce(op, "mean", exact ? Kind::kMean : Kind::kOther);
}

// max, min: reductions without a second tensor, elementwise with one.
std::optional<Rule> other(const OpView& op) {
  if (op.has("other")) return pointwise_rule(op, "pointwise").build();
  if (op.num_operands() != 1) return std::nullopt;
  return reduce(op, op.base_name(), Kind::kOther);
}

}  // namespace

void add_reduce_rules(Registry& registry) {
  registry.add({"sum"}, sum);
  registry.add({"mean"}, mean);
  registry.add(
      {"all", "amax", "amin", "any", "argmax", "argmin", "count_nonzero",
       "linalg_vector_norm", "logsumexp", "max", "median", "min", "norm",
       "prod", "std", "std_mean", "var", "var_mean"},
      other);
}

}  // namespace shardwright::rules
