// Ops that work along one dim (or the last few) and treat all others as a
// batch: softmax, scans, sorts, pooling, resampling.
#include <algorithm>

#include "shardwright/rules/builder.h"
#include "shardwright/rules/registry.h"

namespace shardwright::rules {
namespace {

// All dims outside [first, last) are free, in the operand and every result.
std::optional<Rule> free_outside(const OpView& op, std::int64_t first,
                                 std::int64_t last) {
  if (op.num_operands() != 1) return std::nullopt;
  RuleBuilder rule(op, op.base_name());
  const auto rank = static_cast<std::int64_t>(op.operand(0).shape.size());
  for (std::int64_t d = 0; d < rank; ++d) {
    if (d < first || d >= last) rule.free_dim(0, d, d);
  }
  return rule.build();
}

std::optional<Rule> along_dim(const OpView& op, std::int64_t fallback) {
  const auto rank = static_cast<std::int64_t>(op.operand(0).shape.size());
  const auto dim = op.attr_dim("dim", rank, fallback);
  if (!dim) return std::nullopt;
  return free_outside(op, *dim, *dim + 1);
}

std::optional<Rule> along_first(const OpView& op) { return along_dim(op, 0); }
std::optional<Rule> along_last(const OpView& op) { return along_dim(op, -1); }

// The last `count` dims are whole.
std::optional<Rule> leading(const OpView& op, std::int64_t count) {
  const auto rank = static_cast<std::int64_t>(op.operand(0).shape.size());
  if (rank < count) return std::nullopt;
  return free_outside(op, rank - count, rank);
}

std::optional<Rule> leading_1d(const OpView& op) { return leading(op, 1); }
std::optional<Rule> leading_2d(const OpView& op) { return leading(op, 2); }
std::optional<Rule> leading_3d(const OpView& op) { return leading(op, 3); }

// Channels of one block of `times` per output channel are not tracked: only
// the batch dim is free (im2col, pixel_shuffle, channel_shuffle).
std::optional<Rule> batch_only(const OpView& op) {
  const auto rank = static_cast<std::int64_t>(op.operand(0).shape.size());
  const std::int64_t whole = op.base_name() == "col2im" ? 2 : 3;
  if (rank < whole || op.num_operands() != 1) return std::nullopt;
  RuleBuilder rule(op, op.base_name());
  for (std::int64_t d = 0; d < rank - whole; ++d) rule.free_dim(0, d, d);
  return rule.build();
}

// The new last dim holds the classes.
std::optional<Rule> one_hot(const OpView& op) {
  RuleBuilder rule(op, "one_hot");
  // -1 infers the count from the largest value seen.
  if (op.attr_int("num_classes", -1) < 0) return rule.build();
  const auto rank = static_cast<std::int64_t>(op.operand(0).shape.size());
  for (std::int64_t d = 0; d < rank; ++d) rule.free_dim(0, d, d);
  return rule.build();
}

// Differences along one dim; prepended and appended tensors share the others.
std::optional<Rule> diff(const OpView& op) {
  const auto rank = static_cast<std::int64_t>(op.operand(0).shape.size());
  const auto dim = op.attr_dim("dim", rank, -1);
  if (!dim) return std::nullopt;
  RuleBuilder rule(op, "diff");
  for (std::int64_t d = 0; d < rank; ++d) {
    if (d == *dim) continue;
    const std::int32_t added = rule.free_dim(0, d, d);
    rule.operand("prepend", d, added).operand("append", d, added);
  }
  return rule.build();
}

// Each element looked up in a sorted list, which is whole.
std::optional<Rule> bucketize(const OpView& op) {
  if (op.num_operands() != 2) return std::nullopt;
  RuleBuilder rule(op, "bucketize");
  const auto rank = static_cast<std::int64_t>(op.operand(0).shape.size());
  for (std::int64_t d = 0; d < rank; ++d) rule.free_dim(0, d, d);
  return rule.build();
}

}  // namespace

void add_whole_dim_rules(Registry& registry) {
  registry.add({"_log_softmax", "_softmax", "cummax", "cummin", "cumprod",
                "cumsum", "log_softmax", "logcumsumexp", "softmax"},
               along_first);
  registry.add({"argsort", "glu", "kthvalue", "sort", "topk"}, along_last);
  registry.add({"diff"}, diff);
  registry.add({"bucketize"}, bucketize);
  registry.add({"tril", "triu"}, leading_2d);
  registry.add(
      {"adaptive_avg_pool1d", "adaptive_max_pool1d", "avg_pool1d", "max_pool1d",
       "max_pool1d_with_indices", "upsample_linear1d", "upsample_nearest1d"},
      leading_1d);
  registry.add(
      {"_adaptive_avg_pool2d", "_upsample_bicubic2d_aa",
       "_upsample_bilinear2d_aa", "adaptive_avg_pool2d", "adaptive_max_pool2d",
       "avg_pool2d", "max_pool2d", "max_pool2d_with_indices",
       "upsample_bicubic2d", "upsample_bilinear2d", "upsample_nearest2d"},
      leading_2d);
  registry.add({"adaptive_avg_pool3d", "adaptive_max_pool3d", "avg_pool3d",
                "max_pool3d", "upsample_nearest3d", "upsample_trilinear3d"},
               leading_3d);
  registry.add({"channel_shuffle", "col2im", "im2col", "pixel_shuffle",
                "pixel_unshuffle"},
               batch_only);
  registry.add({"one_hot"}, one_hot);
}

}  // namespace shardwright::rules
