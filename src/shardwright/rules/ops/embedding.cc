// Embedding: rows of the weight chosen by indices. Indices and features are
// free; a split vocabulary needs the special implementation in which each rank
// looks up the rows it has and the results are summed. Bags of indices lie one
// after the other, told apart by offsets: only their features are free.
#include <fmt/format.h>

#include "shardwright/rules/builder.h"
#include "shardwright/rules/registry.h"

namespace shardwright::rules {
namespace {

std::optional<Rule> embedding(const OpView& op) {
  const std::int32_t indices = op.position("indices");
  if (op.attr_bool("sparse", false) || indices < 0 ||
      op.operand(0).shape.size() != 2) {
    return std::nullopt;
  }
  const Shape& weight = op.operand(0).shape;
  const auto rank = static_cast<std::int64_t>(
      op.operand(static_cast<std::size_t>(indices)).shape.size());
  RuleBuilder rule(op, "embedding");
  // Gradients scaled by how often an index occurs in the whole batch need it
  // on one rank.
  const bool counts = op.attr_bool("scale_grad_by_freq", false);
  for (std::int64_t d = 0; d < rank && !counts; ++d) {
    rule.free_dim(indices, d, d, fmt::format("batch{}", d));
  }
  const std::int32_t hidden = rule.factor("hidden", weight[1]);
  rule.operand(0, 1, hidden).result(0, rank, hidden);
  if (!counts) {
    const std::int32_t vocabulary = rule.contracted("vocabulary", weight[0]);
    rule.operand(0, 0, vocabulary);
    rule.at(vocabulary).variant = "vocab_parallel_embedding";
    rule.variant_arg("size", weight[0]);
  }
  return rule.term({0}).build();
}

// Results: the bags, and for the backward which bag an index is in, how many
// indices a bag has, and in mode "max" which row gave each feature.
std::optional<Rule> embedding_bag(const OpView& op) {
  constexpr std::int64_t kMax = 2;
  constexpr std::int64_t kRows = 3;  // result
  if (op.attr_bool("sparse", false) || op.operand(0).shape.size() != 2 ||
      op.num_results() != 4) {
    return std::nullopt;
  }
  RuleBuilder rule(op, "embedding_bag");
  const std::int32_t hidden = rule.factor("hidden", op.operand(0).shape[1]);
  rule.operand(0, 1, hidden).result(0, 1, hidden);
  rule.side_result(1).side_result(2);
  if (op.attr_int("mode", 0) == kMax) {
    rule.result(kRows, 1, hidden);
  } else {
    rule.side_result(kRows);
  }
  return rule.build();
}

}  // namespace

void add_embedding_rules(Registry& registry) {
  registry.add({"embedding"}, embedding);
  registry.add({"embedding_bag"}, embedding_bag);
}

}  // namespace shardwright::rules
