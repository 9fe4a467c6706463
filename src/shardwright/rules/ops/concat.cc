// cat and stack: the joined dim is whole, all others are shared. Each tensor
// is an addend of the result (zero elsewhere), so all may be Partial together.
#include <fmt/format.h>

#include "shardwright/rules/builder.h"
#include "shardwright/rules/registry.h"

namespace shardwright::rules {
namespace {

std::optional<Rule> join(const OpView& op, bool adds_dim) {
  const Shape& to = op.result().shape;
  const auto rank = static_cast<std::int64_t>(to.size());
  const auto joined = op.attr_dim("dim", rank, 0);
  if (!joined) return std::nullopt;
  RuleBuilder rule(op, adds_dim ? "stack" : "cat");
  bool floating = true;
  for (std::size_t i = 0; i < op.num_operands(); ++i) {
    const std::size_t given = op.operand(i).shape.size();
    if (given + (adds_dim ? 1 : 0) != to.size()) return std::nullopt;
    rule.term({static_cast<std::int32_t>(i)});
    // Joining may promote the type: no sums then.
    floating = floating && ir::is_floating(op.operand(i).dtype) &&
               op.operand(i).dtype == op.result().dtype;
  }
  for (std::int64_t d = 0; d < rank; ++d) {
    if (d == *joined) continue;
    const std::int32_t added =
        rule.factor(fmt::format("dim{}", d), to[static_cast<std::size_t>(d)]);
    rule.result(0, d, added);
    for (std::size_t i = 0; i < op.num_operands(); ++i) {
      rule.operand(static_cast<std::int64_t>(i),
                   adds_dim && d > *joined ? d - 1 : d, added);
    }
  }
  if (floating) rule.linear().delayed();
  return rule.build();
}

std::optional<Rule> cat(const OpView& op) { return join(op, false); }
std::optional<Rule> stack(const OpView& op) { return join(op, true); }

}  // namespace

void add_concat_rules(Registry& registry) {
  registry.add({"cat", "concat", "concatenate"}, cat);
  registry.add({"stack"}, stack);
}

}  // namespace shardwright::rules
