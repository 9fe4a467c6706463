// Ops that cut, repeat or move data along some dims: these dims are whole, all
// others are free.
#include <algorithm>

#include "shardwright/rules/builder.h"
#include "shardwright/rules/registry.h"

namespace shardwright::rules {
namespace {

RuleBuilder& moves_data(const OpView& op, RuleBuilder& rule) {
  if (ir::is_floating(op.operand(0).dtype)) {
    rule.term({0}).linear().delayed();
  }
  return rule;
}

// Every dim but `cut` is free; results keep the dims.
RuleBuilder cut_rule(const OpView& op, std::string name, std::int64_t cut) {
  RuleBuilder rule(op, std::move(name));
  const auto rank = static_cast<std::int64_t>(op.operand(0).shape.size());
  for (std::int64_t d = 0; d < rank; ++d) {
    if (d != cut) rule.free_dim(0, d, d);
  }
  return rule;
}

std::optional<std::int64_t> cut_dim(const OpView& op) {
  return op.attr_dim("dim",
                     static_cast<std::int64_t>(op.operand(0).shape.size()), 0);
}

// split, split_with_sizes, chunk, tensor_split.
std::optional<Rule> split(const OpView& op) {
  const auto dim = cut_dim(op);
  if (!dim) return std::nullopt;
  RuleBuilder rule = cut_rule(op, "split", *dim);
  return moves_data(op, rule).build();
}

// A slice that takes all of its dim takes all of a local part too: `end` is
// clamped to the size.
std::optional<Rule> slice(const OpView& op) {
  const auto dim = cut_dim(op);
  if (!dim || op.num_operands() != 1) return std::nullopt;
  const bool untouched =
      op.attr_int("step", 1) == 1 && op.operand(0).shape == op.result().shape;
  RuleBuilder rule = cut_rule(op, "slice", untouched ? -1 : *dim);
  return moves_data(op, rule).build();
}

std::optional<Rule> narrow(const OpView& op) {
  const auto dim = cut_dim(op);
  if (!dim || op.num_operands() != 1) return std::nullopt;
  RuleBuilder rule = cut_rule(op, "narrow", *dim);
  return moves_data(op, rule).build();
}

// select, unbind: the dim disappears.
std::optional<Rule> remove_dim(const OpView& op) {
  const auto dim = cut_dim(op);
  if (!dim) return std::nullopt;
  RuleBuilder rule(op, "select");
  const auto rank = static_cast<std::int64_t>(op.operand(0).shape.size());
  for (std::int64_t d = 0; d < rank; ++d) {
    if (d != *dim) rule.free_dim(0, d, d < *dim ? d : d - 1);
  }
  return moves_data(op, rule).build();
}

// `pad` lists (before, after) pairs from the last dim backwards.
std::optional<Rule> pad(const OpView& op) {
  const auto amounts = op.attr_ints("pad");
  if (!amounts) return std::nullopt;
  const auto rank = static_cast<std::int64_t>(op.operand(0).shape.size());
  RuleBuilder rule(op, "pad");
  for (std::int64_t d = 0; d < rank; ++d) {
    const auto at = static_cast<std::size_t>(2 * (rank - 1 - d));
    const bool padded = at + 1 < amounts->size() &&
                        ((*amounts)[at] != 0 || (*amounts)[at + 1] != 0);
    if (!padded) rule.free_dim(0, d, d);
  }
  return rule.build();
}

// repeat, tile: a dim repeated once is free.
std::optional<Rule> repeat(const OpView& op) {
  const auto repeats =
      op.attr_ints(op.base_name() == "tile" ? "dims" : "repeats");
  if (!repeats) return std::nullopt;
  const auto from = static_cast<std::int64_t>(op.operand(0).shape.size());
  const auto to = static_cast<std::int64_t>(op.result().shape.size());
  const auto given = static_cast<std::int64_t>(repeats->size());
  RuleBuilder rule(op, "repeat");
  for (std::int64_t d = 0; d < from; ++d) {
    const std::int64_t at = given - (from - d);
    const bool once = at < 0 || (*repeats)[static_cast<std::size_t>(at)] == 1;
    if (once) rule.free_dim(0, d, to - (from - d));
  }
  return rule.build();
}

// Each element `repeats` times in a row: blocks stay together.
std::optional<Rule> repeat_interleave(const OpView& op) {
  const std::int64_t repeats = op.attr_int("repeats", 0);
  if (repeats < 1 || op.num_operands() != 1 || op.has_attr("output_size")) {
    return std::nullopt;
  }
  const Shape& shape = op.operand(0).shape;
  const auto rank = static_cast<std::int64_t>(shape.size());
  RuleBuilder rule(op, "repeat_interleave");
  if (!op.has_attr("dim")) return rule.build();  // flattens
  const auto dim = op.attr_dim("dim", rank, 0);
  if (!dim) return std::nullopt;
  for (std::int64_t d = 0; d < rank; ++d) {
    const std::int32_t added = rule.free_dim(0, d, d);
    if (d == *dim) rule.result(0, d, added, repeats);
  }
  return rule.build();
}

// roll, flip: moved dims are whole; roll without dims flattens.
std::optional<Rule> move_along(const OpView& op) {
  const auto rank = static_cast<std::int64_t>(op.operand(0).shape.size());
  const auto moved = op.attr_dim_mask("dims", rank);
  if (!moved) return std::nullopt;
  RuleBuilder rule(op, op.base_name());
  for (std::int64_t d = 0; d < rank; ++d) {
    if (!(*moved)[static_cast<std::size_t>(d)]) rule.free_dim(0, d, d);
  }
  return rule.build();
}

// Sliding windows along one dim, laid out in a new last dim.
std::optional<Rule> unfold(const OpView& op) {
  const auto rank = static_cast<std::int64_t>(op.operand(0).shape.size());
  const auto dim = op.attr_dim("dimension", rank, 0);
  if (!dim) return std::nullopt;
  RuleBuilder rule = cut_rule(op, "unfold", *dim);
  return rule.build();
}

// view_as_complex, view_as_real: the last dim of 2 appears or disappears.
std::optional<Rule> complex_view(const OpView& op) {
  const auto shared = static_cast<std::int64_t>(
      std::min(op.operand(0).shape.size(), op.result().shape.size()));
  RuleBuilder rule(op, op.base_name());
  for (std::int64_t d = 0; d < shared; ++d) rule.free_dim(0, d, d);
  return rule.build();
}

// A piece of self replaced by src: the cut dim is whole in both.
std::optional<Rule> slice_scatter(const OpView& op) {
  const auto dim = cut_dim(op);
  if (!dim || op.num_operands() != 2) return std::nullopt;
  const bool selects = op.base_name() == "select_scatter";
  RuleBuilder rule(op, op.base_name());
  const auto rank = static_cast<std::int64_t>(op.operand(0).shape.size());
  for (std::int64_t d = 0; d < rank; ++d) {
    if (d == *dim) continue;
    const std::int32_t added = rule.free_dim(0, d, d);
    rule.operand(1, selects && d > *dim ? d - 1 : d, added);
  }
  return rule.build();
}

}  // namespace

void add_shape_rules(Registry& registry) {
  registry.add({"split", "split_with_sizes", "chunk", "tensor_split"}, split);
  registry.add({"slice"}, slice);
  registry.add({"narrow"}, narrow);
  registry.add({"select", "unbind"}, remove_dim);
  registry.add({"pad", "constant_pad_nd"}, pad);
  registry.add({"repeat", "tile"}, repeat);
  registry.add({"repeat_interleave"}, repeat_interleave);
  registry.add({"roll", "flip"}, move_along);
  registry.add({"unfold"}, unfold);
  registry.add({"view_as_complex", "view_as_real"}, complex_view);
  registry.add({"slice_scatter", "select_scatter"}, slice_scatter);
}

}  // namespace shardwright::rules
