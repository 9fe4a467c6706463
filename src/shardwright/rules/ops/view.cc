// Views that regroup dims (reshape and its kin), reorder them, or repeat them.
//
// Regrouping: dims of operand and result are walked together; the smallest
// runs of equal product form groups. A group keeps its row-major order, so its
// leading dims can be split into equal blocks: the factor is the greatest
// common divisor of the two leading sizes, and one dim facing one dim may be
// split unevenly. A factor inside a group would be a strided piece of the
// other side and is not offered.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

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

struct Group {
  std::size_t from = 0;  // leading dim of the operand
  std::size_t to = 0;    // leading dim of the result
  std::int64_t size = 1;
};

// The leading factor of every group. Complexity: linear in the ranks.
std::vector<Group> leading_groups(const Shape& from, const Shape& to) {
  std::vector<Group> groups;
  std::size_t i = 0;
  std::size_t j = 0;
  while (true) {
    while (i < from.size() && from[i] == 1) ++i;
    while (j < to.size() && to[j] == 1) ++j;
    if (i >= from.size() || j >= to.size()) return groups;
    groups.push_back({i, j, std::gcd(from[i], to[j])});
    std::int64_t left = from[i++];
    std::int64_t right = to[j++];
    while (left != right) {
      if (left < right) {
        if (i >= from.size()) return {};
        left *= from[i++];
      } else {
        if (j >= to.size()) return {};
        right *= to[j++];
      }
    }
  }
}

RuleBuilder regroup_rule(const OpView& op, std::string name) {
  RuleBuilder rule(op, std::move(name));
  const Shape& from = op.operand(0).shape;
  const Shape& to = op.result().shape;
  const auto empty = [](const Shape& shape) {
    return std::find(shape.begin(), shape.end(), 0) != shape.end();
  };
  if (empty(from) || empty(to)) return rule;
  for (const Group& group : leading_groups(from, to)) {
    const std::int32_t added =
        rule.factor(fmt::format("dim{}", group.to), group.size);
    rule.operand(0, static_cast<std::int64_t>(group.from), added,
                 from[group.from] / group.size);
    rule.result(0, static_cast<std::int64_t>(group.to), added,
                to[group.to] / group.size);
    // view_as and reshape_as read the shape from a second tensor.
    if (op.num_operands() == 2) {
      rule.operand(1, static_cast<std::int64_t>(group.to), added,
                   to[group.to] / group.size);
    }
  }
  return rule;
}

std::optional<Rule> reshape(const OpView& op) {
  // view.dtype reinterprets bytes: another op.
  if (op.operand(0).dtype != op.result().dtype) return std::nullopt;
  RuleBuilder rule = regroup_rule(op, "reshape");
  return moves_data(op, rule).build();
}

// sizes lists the new dims only: entries of split dims become local.
std::optional<Rule> unflatten(const OpView& op) {
  const auto rank = static_cast<std::int64_t>(op.operand(0).shape.size());
  const auto dim = op.attr_dim("dim", rank, 0);
  const auto sizes = op.attr_ints("sizes");
  if (!dim || !sizes) return std::nullopt;
  RuleBuilder rule = regroup_rule(op, "unflatten");
  std::optional<Rule> built = moves_data(op, rule).build();
  if (!built) return std::nullopt;
  Rule& out = *built;
  for (std::size_t i = 0; i < sizes->size(); ++i) {
    const auto at = static_cast<std::size_t>(*dim) + i;
    if (at >= out.results[0].size()) return std::nullopt;
    const DimFactor& mapped = out.results[0][at];
    if (mapped.factor < 0) continue;
    out.factors[static_cast<std::size_t>(mapped.factor)].even_only = true;
    out.attr_factors.emplace_back(fmt::format("sizes[{}]", i), mapped);
  }
  return built;
}

// A named dim of another size than 1 stays, but at local size 1 torch would
// drop it: such a dim is not split. Without dims this holds for all.
std::optional<Rule> squeeze(const OpView& op) {
  const Shape& from = op.operand(0).shape;
  const auto rank = static_cast<std::int64_t>(from.size());
  const auto named = op.attr_dim_mask("dim", rank);
  if (!named) return std::nullopt;
  RuleBuilder rule(op, "squeeze");
  std::int64_t to = 0;
  for (std::int64_t d = 0; d < rank; ++d) {
    const auto at = static_cast<std::size_t>(d);
    if ((*named)[at] && from[at] == 1) continue;
    if (!(*named)[at]) rule.free_dim(0, d, to);
    ++to;
  }
  return moves_data(op, rule).build();
}

std::optional<Rule> unsqueeze(const OpView& op) {
  const auto rank = static_cast<std::int64_t>(op.operand(0).shape.size());
  const auto added = op.attr_dim("dim", rank + 1, 0);
  if (!added) return std::nullopt;
  RuleBuilder rule(op, "unsqueeze");
  for (std::int64_t d = 0; d < rank; ++d) {
    rule.free_dim(0, d, d < *added ? d : d + 1);
  }
  return moves_data(op, rule).build();
}

// `order[d]` is the operand dim that becomes result dim d.
std::optional<Rule> reorder(const OpView& op, const Shape& order) {
  if (order.size() != op.result().shape.size()) return std::nullopt;
  RuleBuilder rule(op, "permute");
  for (std::size_t d = 0; d < order.size(); ++d) {
    rule.free_dim(0, order[d], static_cast<std::int64_t>(d));
  }
  return moves_data(op, rule).build();
}

Shape identity_order(std::int64_t rank) {
  Shape order(static_cast<std::size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

std::optional<Rule> transpose(const OpView& op) {
  const auto rank = static_cast<std::int64_t>(op.operand(0).shape.size());
  const bool axes = op.has_attr("axis0");
  const auto first = op.attr_dim(axes ? "axis0" : "dim0", rank, 0);
  const auto second = op.attr_dim(axes ? "axis1" : "dim1", rank, 0);
  if (!first || !second) return std::nullopt;
  Shape order = identity_order(rank);
  if (rank > 0) {
    std::swap(order[static_cast<std::size_t>(*first)],
              order[static_cast<std::size_t>(*second)]);
  }
  return reorder(op, order);
}

// t, numpy_T: all dims reversed; mT: the last two.
std::optional<Rule> reverse_dims(const OpView& op) {
  Shape order =
      identity_order(static_cast<std::int64_t>(op.operand(0).shape.size()));
  const bool last_two = op.base_name() == "mT";
  if (last_two && order.size() < 2) return std::nullopt;
  std::reverse(last_two ? order.end() - 2 : order.begin(), order.end());
  return reorder(op, order);
}

std::optional<Rule> permute(const OpView& op) {
  const auto dims = op.attr_ints("dims");
  if (!dims) return std::nullopt;
  Shape order;
  for (const std::int64_t dim : *dims) {
    const auto wrapped = wrap_dim(dim, static_cast<std::int64_t>(dims->size()));
    if (!wrapped) return std::nullopt;
    order.push_back(*wrapped);
  }
  return reorder(op, order);
}

std::optional<Rule> movedim(const OpView& op) {
  const auto source = op.attr_ints("source");
  const auto target = op.attr_ints("destination");
  const auto rank = static_cast<std::int64_t>(op.operand(0).shape.size());
  if (!source || !target || source->size() != target->size()) {
    return std::nullopt;
  }
  Shape order(static_cast<std::size_t>(rank), -1);
  std::vector<bool> moved(static_cast<std::size_t>(rank), false);
  for (std::size_t i = 0; i < source->size(); ++i) {
    const auto from = wrap_dim((*source)[i], rank);
    const auto to = wrap_dim((*target)[i], rank);
    if (!from || !to) return std::nullopt;
    order[static_cast<std::size_t>(*to)] = *from;
    moved[static_cast<std::size_t>(*from)] = true;
  }
  std::int64_t next = 0;
  for (std::int64_t& from : order) {
    if (from >= 0) continue;
    while (moved[static_cast<std::size_t>(next)]) ++next;
    from = next++;
  }
  return reorder(op, order);
}

// A repeated dim of size 1 is whole in the operand: each rank makes its part
// of the copies, and the gradient is a partial sum.
std::optional<Rule> expand(const OpView& op) {
  RuleBuilder rule = pointwise_rule(op, "expand");
  return moves_data(op, rule).build();
}

// Every result has all dims; tensor i lies along dim i (or dim 0 and 1
// swapped, which has no rule).
std::optional<Rule> meshgrid(const OpView& op) {
  if (op.attr_string("indexing") != "ij") return std::nullopt;
  RuleBuilder rule(op, "meshgrid");
  for (std::size_t i = 0; i < op.num_operands(); ++i) {
    if (op.operand(i).shape.size() != 1) return std::nullopt;
    const auto dim = static_cast<std::int64_t>(i);
    rule.free_dim(dim, 0, dim);
  }
  return rule.build();
}

}  // namespace

void add_view_rules(Registry& registry) {
  registry.add({"view", "reshape", "_unsafe_view", "_reshape_alias", "flatten",
                "ravel", "view_as", "reshape_as"},
               reshape);
  registry.add({"unflatten"}, unflatten);
  registry.add({"squeeze"}, squeeze);
  registry.add({"unsqueeze"}, unsqueeze);
  registry.add({"transpose", "swapaxes", "swapdims"}, transpose);
  registry.add({"t", "numpy_T", "mT"}, reverse_dims);
  registry.add({"permute"}, permute);
  registry.add({"movedim", "moveaxis"}, movedim);
  registry.add({"meshgrid"}, meshgrid);
  registry.add({"expand", "expand_as", "broadcast_to"}, expand);
}

}  // namespace shardwright::rules
