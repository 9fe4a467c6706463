// Reading and writing by index. The indexed dims are whole (an index may point
// anywhere); the dims of the indices and the dims not indexed are free.
#include <fmt/format.h>

#include <algorithm>

#include "shardwright/rules/builder.h"
#include "shardwright/rules/registry.h"

namespace shardwright::rules {
namespace {

// Which dim of self each index tensor reads, from the names "indices[2]".
struct IndexedDims {
  std::vector<std::size_t> operands;  // operand positions, in order
  std::vector<std::int64_t> dims;
};

std::optional<IndexedDims> indexed_dims(const OpView& op) {
  IndexedDims out;
  for (std::size_t i = 0; i < op.num_operands(); ++i) {
    const std::string& name = op.op().operand_args[i];
    if (!name.starts_with("indices[")) continue;
    // A mask selects as many elements as it has true ones: data-dependent.
    const ir::DType dtype = op.operand(i).dtype;
    if (dtype == ir::DType::kBool || dtype == ir::DType::kUInt8) {
      return std::nullopt;
    }
    out.operands.push_back(i);
    out.dims.push_back(std::stoll(name.substr(8)));
  }
  if (out.dims.empty()) return std::nullopt;
  return out;
}

// self[i, :, j]: the indices broadcast together to `rank` dims, which stand
// where the first of them was if they are neighbours, else in front.
std::optional<Rule> index(const OpView& op) {
  const auto indexed = indexed_dims(op);
  if (!indexed) return std::nullopt;
  std::int64_t rank = 0;
  for (const std::size_t i : indexed->operands) {
    rank =
        std::max(rank, static_cast<std::int64_t>(op.operand(i).shape.size()));
  }
  const auto& dims = indexed->dims;
  const bool neighbours =
      dims.back() - dims.front() + 1 == static_cast<std::int64_t>(dims.size());
  const std::int64_t start = neighbours ? dims.front() : 0;
  RuleBuilder rule(op, "index");
  const auto self_rank = static_cast<std::int64_t>(op.operand(0).shape.size());
  std::int64_t kept = 0;
  for (std::int64_t d = 0; d < self_rank; ++d) {
    if (std::find(dims.begin(), dims.end(), d) != dims.end()) continue;
    rule.free_dim(0, d, kept < start ? kept : kept + rank);
    ++kept;
  }
  const Shape& to = op.result().shape;
  if (static_cast<std::int64_t>(to.size()) < start + rank) return std::nullopt;
  for (std::int64_t d = 0; d < rank; ++d) {
    const std::int64_t size = to[static_cast<std::size_t>(start + d)];
    const std::int32_t added = rule.factor(fmt::format("index{}", d), size);
    rule.result(0, start + d, added);
    for (const std::size_t i : indexed->operands) {
      const Shape& shape = op.operand(i).shape;
      const std::int64_t at =
          d - (rank - static_cast<std::int64_t>(shape.size()));
      if (at < 0 || shape[static_cast<std::size_t>(at)] == 1) continue;
      rule.operand(static_cast<std::int64_t>(i), at, added);
    }
  }
  return rule.build();
}

std::optional<Rule> index_select(const OpView& op) {
  const auto rank = static_cast<std::int64_t>(op.operand(0).shape.size());
  const auto dim = op.attr_dim("dim", rank, 0);
  if (!dim || rank == 0 || op.operand(1).shape.size() != 1) {
    return std::nullopt;
  }
  RuleBuilder rule(op, "index_select");
  for (std::int64_t d = 0; d < rank; ++d) {
    if (d != *dim) rule.free_dim(0, d, d);
  }
  rule.free_dim(1, 0, *dim, "index");
  return rule.build();
}

// A dim other than `dim` is free when all tensors have all of it (an index may
// be shorter than self there).
std::optional<Rule> along(const OpView& op, bool gathers) {
  const Shape& to = op.result().shape;
  const auto rank = static_cast<std::int64_t>(to.size());
  const auto dim = op.attr_dim("dim", rank, 0);
  if (!dim || op.op().operand_args[0] != "self") return std::nullopt;
  RuleBuilder rule(op, op.base_name());
  for (std::int64_t d = 0; d < rank; ++d) {
    const auto at = static_cast<std::size_t>(d);
    bool shared = d != *dim;
    for (std::size_t i = 0; i < op.num_operands(); ++i) {
      const Shape& shape = op.operand(i).shape;
      if (shape.size() != to.size()) return std::nullopt;
      shared = shared && shape[at] == to[at];
    }
    if (shared) {
      const std::int32_t added = rule.free_dim(0, d, d);
      for (std::size_t i = 1; i < op.num_operands(); ++i) {
        rule.operand(static_cast<std::int64_t>(i), d, added);
      }
    } else if (gathers && d == *dim) {
      rule.free_dim(op.position("index"), d, d, "index");
    }
  }
  return rule.build();
}

std::optional<Rule> gather(const OpView& op) {
  if (op.attr_bool("sparse_grad", false) || op.position("index") < 0) {
    return std::nullopt;
  }
  return along(op, true);
}

std::optional<Rule> scatter(const OpView& op) { return along(op, false); }

}  // namespace

void add_index_rules(Registry& registry) {
  registry.add({"index"}, index);
  registry.add({"index_select"}, index_select);
  registry.add({"gather"}, gather);
  registry.add({"scatter", "scatter_add", "scatter_reduce"}, scatter);
}

}  // namespace shardwright::rules
