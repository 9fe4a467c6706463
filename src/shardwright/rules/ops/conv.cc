// Convolutions on [batch, channels, space...]. Space is whole (a split needs
// halos). Without groups the input channels are contracted and the output
// channels free; with groups the factor is a group, which keeps its own block
// of channels on both sides.
#include <fmt/format.h>

#include "shardwright/rules/builder.h"
#include "shardwright/rules/registry.h"

namespace shardwright::rules {
namespace {

constexpr std::int64_t kInput = 0;
constexpr std::int64_t kWeight = 1;

// weight: [out, in / groups, kernel...], or [in, out / groups, kernel...] of a
// transposed convolution.
std::optional<Rule> convolve(const OpView& op, bool transposed) {
  const Shape& input = op.operand(kInput).shape;
  const Shape& weight = op.operand(kWeight).shape;
  const std::int64_t groups = op.attr_int("groups", 1);
  if (input.size() != weight.size() || input.size() < 3 || groups < 1) {
    return std::nullopt;  // an input without batch dim has no rule
  }
  const std::int64_t in = input[1];
  const std::int64_t out = op.result().shape[1];
  RuleBuilder rule(op, transposed ? "conv_transpose" : "conv");
  rule.free_dim(kInput, 0, 0, "batch");
  rule.term({0, 1});
  if (op.has("bias")) rule.term({op.position("bias")});
  if (groups == 1) {
    const std::int32_t from = rule.contracted("in", in);
    rule.operand(kInput, 1, from).operand(kWeight, transposed ? 0 : 1, from);
    const std::int32_t to = rule.factor("out", out);
    rule.operand(kWeight, transposed ? 1 : 0, to).result(0, 1, to);
    rule.operand("bias", 0, to);
    return rule.build();
  }
  if (in % groups != 0 || out % groups != 0) return std::nullopt;
  const std::int32_t group = rule.factor("groups", groups);
  rule.operand(kInput, 1, group, in / groups);
  rule.operand(kWeight, 0, group, (transposed ? in : out) / groups);
  rule.operand("bias", 0, group, out / groups);
  rule.result(0, 1, group, out / groups);
  return rule.attr("groups", group).build();
}

std::optional<Rule> conv(const OpView& op) {
  return convolve(op, op.attr_bool("transposed", false));
}

std::optional<Rule> conv_transpose(const OpView& op) {
  return convolve(op, true);
}

}  // namespace

void add_conv_rules(Registry& registry) {
  registry.add({"conv1d", "conv2d", "conv3d", "convolution"}, conv);
  registry.add({"conv_transpose1d", "conv_transpose2d", "conv_transpose3d"},
               conv_transpose);
}

}  // namespace shardwright::rules
