// Normalisations. The normalised dims are whole, except a batch norm's batch
// and space, which a synchronised implementation may split.
#include <fmt/format.h>

#include "shardwright/rules/builder.h"
#include "shardwright/rules/registry.h"

namespace shardwright::rules {
namespace {

constexpr std::int64_t kExactBytes = 4;  // float32 and wider

// layer_norm, rms_norm: statistics over the last normalized_shape dims.
std::optional<Rule> trailing_norm(const OpView& op) {
  const auto normalized = op.attr_ints("normalized_shape");
  if (!normalized) return std::nullopt;
  const auto leading = static_cast<std::int64_t>(op.operand(0).shape.size()) -
                       static_cast<std::int64_t>(normalized->size());
  RuleBuilder rule(op, op.base_name());
  for (std::int64_t d = 0; d < leading; ++d) rule.free_dim(0, d, d);
  return rule.build();
}

// Channels are groups of channels: whole groups may be split off.
std::optional<Rule> group_norm(const OpView& op) {
  const Shape& input = op.operand(0).shape;
  const std::int64_t groups = op.attr_int("num_groups", 0);
  if (input.size() < 2 || groups < 1 || input[1] % groups != 0) {
    return std::nullopt;
  }
  RuleBuilder rule(op, "group_norm");
  rule.free_dim(0, 0, 0, "batch");
  const std::int64_t times = input[1] / groups;
  const std::int32_t added = rule.factor("groups", groups);
  rule.operand(0, 1, added, times).result(0, 1, added, times);
  rule.operand("weight", 0, added, times).operand("bias", 0, added, times);
  return rule.attr("num_groups", added).build();
}

// Training statistics go over batch and space: where these are split they are
// summed over the ranks (sync_batch_norm). Channels are independent, but the
// running statistics are buffers, whole on every rank, and the op writes them:
// a channel split would lose the writes of the other ranks.
std::optional<Rule> batch_norm(const OpView& op) {
  const Shape& input = op.operand(0).shape;
  if (input.size() < 2) return std::nullopt;
  const bool training = op.attr_bool("training", true);
  // Sums of half precision over many ranks lose their digits: not split.
  const bool exact = ir::size_of(op.operand(0).dtype) >= kExactBytes;
  const bool writes = op.op().effect || (training && op.has("running_mean"));
  RuleBuilder rule(op, "batch_norm");
  for (std::size_t d = 0; d < input.size(); ++d) {
    if (d == 1 || (training && !exact)) continue;
    const auto dim = static_cast<std::int64_t>(d);
    const std::int32_t added = rule.free_dim(
        0, dim, dim, d == 0 ? "batch" : fmt::format("space{}", d - 2));
    if (training) rule.at(added).variant = "sync_batch_norm";
  }
  if (writes) return rule.build();
  const std::int32_t channel = rule.free_dim(0, 1, 1, "channel");
  for (const char* arg : {"weight", "bias", "running_mean", "running_var"}) {
    rule.operand(arg, 0, channel);
  }
  return rule.build();
}

// Statistics per sample and channel; with running statistics also over the
// batch, which has no rule.
std::optional<Rule> instance_norm(const OpView& op) {
  if (op.has("running_mean") || op.has("running_var")) return std::nullopt;
  RuleBuilder rule(op, "instance_norm");
  rule.free_dim(0, 0, 0, "batch");
  const std::int32_t channel = rule.free_dim(0, 1, 1, "channel");
  rule.operand("weight", 0, channel).operand("bias", 0, channel);
  return rule.build();
}

}  // namespace

void add_norm_rules(Registry& registry) {
  registry.add({"layer_norm", "rms_norm"}, trailing_norm);
  registry.add({"group_norm"}, group_norm);
  registry.add({"batch_norm"}, batch_norm);
  registry.add({"instance_norm"}, instance_norm);
}

}  // namespace shardwright::rules
