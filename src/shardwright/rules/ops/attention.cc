// Scaled dot product attention on [batch..., heads, length, features].
//
// Batch and heads are free; with grouped queries a factor is a key head with
// its block of query heads. Query rows are independent of each other unless a
// causal mask counts them or dropout draws per row; the keys are whole.
#include <fmt/format.h>

#include "shardwright/rules/builder.h"
#include "shardwright/rules/registry.h"

namespace shardwright::rules {
namespace {

constexpr std::int64_t kQuery = 0;
constexpr std::int64_t kKey = 1;
constexpr std::int64_t kValue = 2;

std::int64_t size_at(const Shape& shape, std::int64_t dim) {
  return shape[static_cast<std::size_t>(dim)];
}

// Maps dim `dim` of the result (rank `rank`) in the mask, by broadcasting.
void map_mask(const OpView& op, RuleBuilder& rule, std::int64_t rank,
              std::int64_t dim, std::int32_t factor, std::int64_t times) {
  const std::int32_t position = op.position("attn_mask");
  if (position < 0) return;
  const Shape& mask = op.operand(static_cast<std::size_t>(position)).shape;
  const std::int64_t at = dim - (rank - static_cast<std::int64_t>(mask.size()));
  if (at < 0 || size_at(mask, at) == 1) return;
  rule.operand(position, at, factor, times);
}

std::optional<Rule> attention(const OpView& op) {
  const Shape& query = op.operand(kQuery).shape;
  const Shape& key = op.operand(kKey).shape;
  const Shape& value = op.operand(kValue).shape;
  const auto rank = static_cast<std::int64_t>(query.size());
  if (rank < 3 || key.size() != query.size() || value.size() != query.size()) {
    return std::nullopt;
  }
  RuleBuilder rule(op, "attention");
  const std::int64_t heads = rank - 3;
  const bool grouped = op.attr_bool("enable_gqa", false) && rank >= 4 &&
                       size_at(query, heads) != size_at(key, heads);
  for (std::int64_t d = 0; d < rank - 2; ++d) {
    const bool is_heads = rank >= 4 && d == heads;
    const std::int64_t times =
        is_heads && grouped ? size_at(query, d) / size_at(key, d) : 1;
    const std::int64_t size =
        is_heads && grouped ? size_at(key, d) : size_at(op.result().shape, d);
    const std::int32_t added =
        rule.factor(is_heads ? "heads" : fmt::format("batch{}", d), size);
    rule.result(0, d, added, times);
    for (const std::int64_t position : {kQuery, kKey, kValue}) {
      const auto at = static_cast<std::size_t>(position);
      if (size_at(op.operand(at).shape, d) == 1) continue;
      rule.operand(position, d, added, position == kQuery ? times : 1);
    }
    map_mask(op, rule, rank, d, added, times);
  }
  const bool rows_free = !op.attr_bool("is_causal", false) &&
                         op.attr_double("dropout_p", 0.0) == 0.0;
  if (rows_free) {
    const std::int32_t rows = rule.factor("rows", size_at(query, rank - 2));
    rule.operand(kQuery, rank - 2, rows).result(0, rank - 2, rows);
    map_mask(op, rule, rank, rank - 2, rows, 1);
  }
  if (op.attr_double("dropout_p", 0.0) > 0.0) {
    for (std::int32_t f = 0; f < rank - 2; ++f) rule.at(f).variant = "random";
  }
  return rule.build();
}

}  // namespace

void add_attention_rules(Registry& registry) {
  registry.add({"scaled_dot_product_attention"}, attention);
}

}  // namespace shardwright::rules
