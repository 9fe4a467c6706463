#include "shardwright/verify/op_split.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace shardwright::verify::internal {
namespace {

using rules::DimFactor;
using rules::Rule;

tl::unexpected<Error> wrong(std::string text) {
  return make_error(ErrorCode::kInvalidPlan, std::move(text));
}

// Position of the dim that has the factor, -1.
std::int32_t dim_with(const std::vector<DimFactor>& dims, std::int32_t factor) {
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (dims[d].factor == factor) return static_cast<std::int32_t>(d);
  }
  return -1;
}

Result<std::int32_t> read_mode(const std::string& word,
                               const std::optional<Rule>& rule) {
  if (word == "partial") return kPartialAxis;
  if (word == "delayed") return kDelayedAxis;
  std::int32_t found = kWholeAxis;
  for (std::size_t f = 0; rule && f < rule->factors.size(); ++f) {
    if (rule->factors[f].name != word) continue;
    if (found >= 0) return wrong(fmt::format("two factors named '{}'", word));
    found = static_cast<std::int32_t>(f);
  }
  if (found < 0) {
    return wrong(fmt::format("the op has no factor '{}' to split", word));
  }
  return found;
}

// "a -> batch0, b -> out"; axes not named are whole, "replicate" names none.
Result<std::vector<std::int32_t>> read_modes(const std::string& text,
                                             const std::optional<Rule>& rule,
                                             const mesh::DeviceMesh& mesh) {
  std::vector<std::int32_t> modes(mesh.axes.size(), kWholeAxis);
  if (text == "replicate") return modes;
  std::set<std::int32_t> seen;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(", ", begin), text.size());
    const std::string item = text.substr(begin, end - begin);
    const std::size_t arrow = item.find(" -> ");
    if (arrow == std::string::npos) {
      return wrong(fmt::format("strategy '{}' cannot be read", text));
    }
    const std::int32_t axis = mesh.axis_index(item.substr(0, arrow));
    if (axis < 0 || !seen.insert(axis).second) {
      return wrong(
          fmt::format("strategy '{}' names an axis that the mesh does "
                      "not have, or one twice",
                      text));
    }
    SW_ASSIGN_OR_RETURN(modes[static_cast<std::size_t>(axis)],
                        read_mode(item.substr(arrow + 4), rule));
    begin = end + 2;
  }
  return modes;
}

// Adds one mesh axis to the layouts of an op's tensors.
class AxisSplit {
 public:
  AxisSplit(const ir::Graph& graph, const ir::Op& op, const Rule& rule,
            std::int32_t axis, OpSplit& out)
      : graph_(graph), op_(op), rule_(rule), axis_(axis), out_(out) {}

  Result<bool> factor(std::int32_t f) {
    const rules::Factor& factor = rule_.factors[static_cast<std::size_t>(f)];
    for (std::size_t i = 0; i < op_.operands.size(); ++i) {
      const std::int32_t dim = dim_with(rule_.operands[i], f);
      if (dim >= 0) {
        shard(out_.operands[i], dim);
      } else if (factor.contracted && leads_term_without(i, f)) {
        out_.operands[i].forward.partial.push_back(axis_);
      } else {
        delay(out_.operands[i], op_.operands[i]);
      }
    }
    for (std::size_t r = 0; r < op_.results.size(); ++r) {
      const std::int32_t dim = dim_with(rule_.results[r], f);
      if (rule_.is_side_result(r)) continue;  // whole on every rank
      if (dim >= 0) {
        shard(out_.results[r], dim);
      } else if (factor.contracted) {
        out_.results[r].forward.partial.push_back(axis_);
      } else if (!factor.result_replicated) {
        return wrong(
            fmt::format("factor '{}' is split, but result {} neither "
                        "has it nor sums over it",
                        factor.name, r));
      }
    }
    return true;
  }

  Result<bool> partial() {
    if (!rule_.linear_partial) {
      return wrong("the op is not linear: it cannot take partial sums");
    }
    for (const auto& term : rule_.terms) {
      for (std::size_t i = 0; i < term.size(); ++i) {
        const auto k = static_cast<std::size_t>(term[i]);
        if (i == 0) {
          out_.operands[k].forward.partial.push_back(axis_);
        } else {
          delay(out_.operands[k], op_.operands[k]);
        }
      }
    }
    for (Side& result : out_.results) result.forward.partial.push_back(axis_);
    return true;
  }

  Result<bool> delayed() {
    if (!rule_.delayed) {
      return wrong("the op cannot take a partial gradient");
    }
    for (std::size_t i = 0; i < op_.operands.size(); ++i) {
      delay(out_.operands[i], op_.operands[i]);
    }
    for (std::size_t r = 0; r < op_.results.size(); ++r) {
      delay(out_.results[r], op_.results[r]);
    }
    return true;
  }

 private:
  void shard(Side& side, std::int32_t dim) const {
    side.forward.dims[static_cast<std::size_t>(dim)].push_back(axis_);
    side.gradient.dims[static_cast<std::size_t>(dim)].push_back(axis_);
  }
  void delay(Side& side, ValueId value) const {
    if (graph_.value(value).requires_grad)
      side.gradient.partial.push_back(axis_);
  }

  [[nodiscard]] bool leads_term_without(std::size_t operand,
                                        std::int32_t f) const {
    for (const auto& term : rule_.terms) {
      if (term.empty() || term.front() != static_cast<std::int32_t>(operand)) {
        continue;
      }
      return std::none_of(term.begin(), term.end(), [&](std::int32_t k) {
        return dim_with(rule_.operands[static_cast<std::size_t>(k)], f) >= 0;
      });
    }
    return false;
  }

  const ir::Graph& graph_;
  const ir::Op& op_;
  const Rule& rule_;
  std::int32_t axis_;
  OpSplit& out_;
};

// True when some tensor has the factor as blocks of more than one element.
bool has_blocks(const Rule& rule, std::int32_t f) {
  for (const auto* tensors : {&rule.operands, &rule.results}) {
    for (const auto& dims : *tensors) {
      for (const DimFactor& dim : dims) {
        if (dim.factor == f && dim.times > 1) return true;
      }
    }
  }
  return false;
}

Result<bool> derive_factors(const Rule& rule, const mesh::DeviceMesh& mesh,
                            OpSplit& out) {
  for (std::size_t f = 0; f < rule.factors.size(); ++f) {
    std::vector<std::int64_t> ranks;
    for (std::size_t a = 0; a < mesh.axes.size(); ++a) {
      if (out.modes[a] == static_cast<std::int32_t>(f)) {
        ranks.push_back(mesh.axes[a].size);
      }
    }
    const rules::Factor& factor = rule.factors[f];
    const std::vector<std::int64_t> sizes = parts(factor.size, ranks);
    const auto [least, most] = std::minmax_element(sizes.begin(), sizes.end());
    if (!ranks.empty() && *least < 1) {
      return wrong(
          fmt::format("factor '{}' of size {} leaves a rank without a "
                      "part",
                      factor.name, factor.size));
    }
    const bool even =
        factor.even_only || has_blocks(rule, static_cast<std::int32_t>(f));
    if (even && *least != *most) {
      return wrong(
          fmt::format("factor '{}' of size {} is split unevenly, "
                      "which its blocks do not allow",
                      factor.name, factor.size));
    }
    out.local_factors.push_back(sizes.front());
  }
  return true;
}

void derive_attrs(const ir::Op& op, const Rule& rule, OpSplit& out) {
  for (const auto& [name, dim] : rule.attr_factors) {
    const auto f = static_cast<std::size_t>(dim.factor);
    if (out.local_factors[f] == rule.factors[f].size) continue;
    const std::int64_t local = out.local_factors[f] * dim.times;
    const std::size_t bracket = name.find('[');
    const std::string attr = name.substr(0, bracket);
    if (bracket == std::string::npos) {
      out.local_attrs[attr] = local;
      continue;
    }
    if (!out.local_attrs.contains(attr)) {
      out.local_attrs[attr] = op.attrs.at(attr);
    }
    out.local_attrs[attr][std::stoul(name.substr(bracket + 1))] = local;
  }
}

void start_whole(const ir::Graph& graph, const ir::Op& op, OpSplit& out) {
  for (const auto& [ids, sides] : {std::pair{&op.operands, &out.operands},
                                   std::pair{&op.results, &out.results}}) {
    for (const ValueId id : *ids) {
      const Layout whole = sharding::replicated(graph.value(id).shape.size());
      sides->push_back(Side{whole, whole});
    }
  }
}

}  // namespace

bool OpSplit::splits() const {
  return std::any_of(modes.begin(), modes.end(),
                     [](std::int32_t mode) { return mode >= 0; });
}

Result<OpSplit> derive_split(const ir::Graph& graph, const ir::Op& op,
                             const std::optional<rules::Rule>& rule,
                             const std::string& strategy,
                             const mesh::DeviceMesh& mesh) {
  OpSplit out;
  SW_ASSIGN_OR_RETURN(out.modes, read_modes(strategy, rule, mesh));
  start_whole(graph, op, out);
  const Rule none;
  const Rule& known = rule ? *rule : none;
  for (std::size_t a = 0; a < mesh.axes.size(); ++a) {
    AxisSplit split(graph, op, known, static_cast<std::int32_t>(a), out);
    const std::int32_t mode = out.modes[a];
    if (mode >= 0) {
      SW_RETURN_IF_ERROR(split.factor(mode));
    } else if (mode == kPartialAxis) {
      SW_RETURN_IF_ERROR(split.partial());
    } else if (mode == kDelayedAxis) {
      SW_RETURN_IF_ERROR(split.delayed());
    }
  }
  SW_RETURN_IF_ERROR(derive_factors(known, mesh, out));
  derive_attrs(op, known, out);
  SW_RETURN_IF_ERROR(derive_variant(graph, op, known, mesh, out));
  return out;
}

bool same_json(const Json& left, const Json& right) {
  return nlohmann::json(left) == nlohmann::json(right);
}

}  // namespace shardwright::verify::internal
