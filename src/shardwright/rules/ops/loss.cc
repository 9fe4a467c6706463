// Losses. Their reduction makes a scalar: rows are then summed over, and the
// denominator of a mean is the global one (a special implementation).
#include <fmt/format.h>

#include "shardwright/rules/builder.h"
#include "shardwright/rules/registry.h"

namespace shardwright::rules {
namespace {

// ATen's Reduction enum.
constexpr std::int64_t kNone = 0;
constexpr std::int64_t kMean = 1;

// Counts and sums over ranks are taken in the logits' type: float32 or wider.
constexpr std::int64_t kExactBytes = 4;

// A row dim of a loss over classes: free without reduction, else summed over.
std::int32_t row_factor(RuleBuilder& rule, std::int64_t reduction,
                        std::string name, std::int64_t size,
                        std::string_view mean_variant) {
  if (reduction == kNone) return rule.factor(std::move(name), size);
  const std::int32_t row = rule.contracted(std::move(name), size);
  if (reduction == kMean) rule.at(row).variant = mean_variant;
  return row;
}

// input [batch, classes, space...] or [classes]; target [batch, space...] of
// class indices. The dims of both and, unreduced, of the result.
void map_rows(const OpView& op, RuleBuilder& rule, std::int64_t reduction,
              std::string_view mean_variant) {
  const Shape& input = op.operand(0).shape;
  const auto rank = static_cast<std::int64_t>(input.size());
  for (std::int64_t d = 0; d < rank && rank > 1; ++d) {
    if (d == 1) continue;
    const std::int64_t to = d == 0 ? 0 : d - 1;
    const std::int32_t row =
        row_factor(rule, reduction, fmt::format("row{}", to),
                   input[static_cast<std::size_t>(d)], mean_variant);
    rule.operand(0, d, row).operand(1, to, row);
    if (reduction == kNone) rule.result(0, to, row);
  }
}

// Class indices as target. A weighted mean divides by the weights of the rows
// seen, which no implementation here shares between ranks, and neither does one
// smooth labels: such a mean is not split.
std::optional<Rule> cross_entropy(const OpView& op) {
  const std::int64_t reduction = op.attr_int("reduction", kMean);
  const Shape& input = op.operand(0).shape;
  if (ir::is_floating(op.operand(1).dtype) || input.empty()) {
    return std::nullopt;
  }
  const bool weighted = op.has("weight");
  const std::size_t class_dim = input.size() == 1 ? 0 : 1;
  RuleBuilder rule(op, "cross_entropy");
  rule.term({0}).variant_arg("num_classes", input[class_dim]);
  const bool exact = ir::size_of(op.operand(0).dtype) >= kExactBytes;
  const bool smooth = op.attr_double("label_smoothing", 0.0) != 0.0;
  if (reduction == kMean && (weighted || smooth || !exact)) {
    return rule.build();
  }
  map_rows(op, rule, reduction, "cross_entropy");
  if (exact && !weighted && !smooth && reduction != kNone &&
      input.size() == 2) {
    const std::int32_t classes = rule.factor("classes", input[1]);
    rule.operand(0, 1, classes);
    rule.at(classes).result_replicated = true;
    rule.at(classes).variant = "cross_entropy";
  }
  return rule.build();
}

// A mean over rows counts the rows that are not ignored on one rank only.
std::optional<Rule> nll_loss(const OpView& op) {
  const std::int64_t reduction = op.attr_int("reduction", kMean);
  if (op.num_results() != 1) return std::nullopt;
  RuleBuilder rule(op, "nll_loss");
  rule.term({0});
  if (reduction != kMean) map_rows(op, rule, reduction, "");
  return rule.build();
}

// Elementwise losses: prediction and target alike, weights broadcast.
std::optional<Rule> pointwise_loss(const OpView& op) {
  const std::int64_t reduction = op.attr_int("reduction", kMean);
  const Shape& shape = op.operand(0).shape;
  if (op.num_operands() < 2 || op.operand(1).shape != shape) {
    return std::nullopt;
  }
  if (reduction == kNone) return pointwise_rule(op, op.base_name()).build();
  // A mean over a split dim sums first: not in half precision, which may
  // overflow, and not for kl_div, which has no such implementation.
  const bool exact = ir::size_of(op.operand(0).dtype) >= kExactBytes;
  if (reduction == kMean && (!exact || op.base_name() == "kl_div")) {
    return RuleBuilder(op, op.base_name()).build();
  }
  RuleBuilder rule(op, op.base_name());
  std::int64_t count = 1;
  std::vector<std::int32_t> term;
  for (std::size_t i = 0; i < op.num_operands(); ++i) {
    if (op.operand(i).shape.size() > shape.size()) return std::nullopt;
    term.push_back(static_cast<std::int32_t>(i));
  }
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const std::int32_t added = row_factor(
        rule, reduction, fmt::format("dim{}", d), shape[d], "scaled_mean");
    count *= shape[d];
    for (std::size_t i = 0; i < op.num_operands(); ++i) {
      const Shape& own = op.operand(i).shape;
      const std::size_t offset = shape.size() - own.size();
      if (d < offset || own[d - offset] == 1) continue;
      rule.operand(static_cast<std::int64_t>(i),
                   static_cast<std::int64_t>(d - offset), added);
    }
  }
  if (reduction == kMean) rule.variant_arg("global_count", count);
  return rule.term(std::move(term)).build();
}

}  // namespace

void add_loss_rules(Registry& registry) {
  registry.add({"cross_entropy_loss"}, cross_entropy);
  registry.add({"nll_loss", "nll_loss2d", "nll_loss_nd"}, nll_loss);
  registry.add(
      {"binary_cross_entropy", "binary_cross_entropy_with_logits", "huber_loss",
       "kl_div", "l1_loss", "mse_loss", "smooth_l1_loss", "soft_margin_loss"},
      pointwise_loss);
}

}  // namespace shardwright::rules
