// Special implementations: which one a split asks for, its arguments, and the
// collectives it issues, from the plan format's list of variants.
#include <fmt/format.h>

#include "shardwright/verify/op_split.h"

namespace shardwright::verify::internal {
namespace {

constexpr std::int64_t kMean = 1;        // ATen's code of reduction="mean"
constexpr std::int64_t kCountBytes = 8;  // an int64

// Axes whose factor passes the test, in mesh order.
template <typename Test>
std::vector<std::size_t> axes_where(const rules::Rule& rule,
                                    const OpSplit& split, Test test) {
  std::vector<std::size_t> out;
  for (std::size_t a = 0; a < split.modes.size(); ++a) {
    const std::int32_t mode = split.modes[a];
    if (mode >= 0 && test(rule.factors[static_cast<std::size_t>(mode)])) {
      out.push_back(a);
    }
  }
  return out;
}

Json names_of(const std::vector<std::size_t>& axes,
              const mesh::DeviceMesh& mesh) {
  Json out = Json::array();
  for (const std::size_t axis : axes) out.push_back(mesh.axes[axis].name);
  return out;
}

void reduce_over(const std::vector<std::size_t>& axes, std::int64_t bytes,
                 const mesh::DeviceMesh& mesh,
                 std::vector<plan::InternalCollective>& list) {
  for (const std::size_t axis : axes) {
    list.push_back({"all_reduce", mesh.axes[axis].name, bytes});
  }
}

// Rows: the logits' elements on this rank without their class dim. A mean
// counts its targets over the row axes; split classes need the row maxima and
// then two numbers a row.
void cross_entropy(const ir::Graph& graph, const ir::Op& op,
                   const rules::Rule& rule, const mesh::DeviceMesh& mesh,
                   OpSplit& split) {
  const ir::Value& logits = graph.value(op.operands[0]);
  const auto sizes = local_sizes(logits.shape, split.operands[0].forward, mesh);
  std::int64_t rows = 1;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    const std::int32_t f = rule.operands[0][d].factor;
    const bool classes =
        f >= 0 && rule.factors[static_cast<std::size_t>(f)].result_replicated;
    if (!classes) rows *= sizes[d];
  }
  const auto row_axes = axes_where(
      rule, split, [](const rules::Factor& f) { return f.contracted; });
  const auto class_axes = axes_where(
      rule, split, [](const rules::Factor& f) { return f.result_replicated; });
  split.variant_args["row_axes"] = names_of(row_axes, mesh);
  split.variant_args["class_axes"] = names_of(class_axes, mesh);
  if (op.attrs.value("reduction", kMean) == kMean) {
    reduce_over(row_axes, kCountBytes, mesh, split.forward);
  }
  const std::int64_t bytes = rows * ir::size_of(logits.dtype);
  reduce_over(class_axes, bytes, mesh, split.forward);
  reduce_over(class_axes, 2 * bytes, mesh, split.forward);
}

// Sums and squared deviations per channel, then both gradients' sums.
void batch_norm(const ir::Graph& graph, const ir::Op& op,
                const std::vector<std::size_t>& axes,
                const mesh::DeviceMesh& mesh, OpSplit& split) {
  const ir::Value& input = graph.value(op.operands[0]);
  const std::int64_t channels =
      local_sizes(input.shape, split.operands[0].forward, mesh)[1];
  const std::int64_t bytes = channels * ir::size_of(input.dtype);
  reduce_over(axes, bytes, mesh, split.forward);
  reduce_over(axes, bytes, mesh, split.forward);
  if (graph.value(op.results[0]).requires_grad) {
    reduce_over(axes, 2 * bytes, mesh, split.backward);
  }
}

Result<std::string> wanted_variant(const ir::Op& op, const rules::Rule& rule,
                                   const OpSplit& split) {
  std::string variant = op.random ? "random" : "";
  for (const std::int32_t mode : split.modes) {
    if (mode < 0) continue;
    const std::string& one =
        rule.factors[static_cast<std::size_t>(mode)].variant;
    if (one.empty() || one == variant) continue;
    if (!variant.empty()) {
      return make_error(
          ErrorCode::kInvalidPlan,
          fmt::format("the split needs both '{}' and '{}'", variant, one));
    }
    variant = one;
  }
  return variant;
}

}  // namespace

Result<bool> derive_variant(const ir::Graph& graph, const ir::Op& op,
                            const rules::Rule& rule,
                            const mesh::DeviceMesh& mesh, OpSplit& split) {
  SW_ASSIGN_OR_RETURN(split.variant, wanted_variant(op, rule, split));
  if (split.variant.empty()) return true;
  if (split.variant != "random") split.variant_args = rule.variant_args;
  if (split.variant == "cross_entropy") {
    cross_entropy(graph, op, rule, mesh, split);
    return true;
  }
  const auto axes = axes_where(rule, split, [&](const rules::Factor& f) {
    return f.variant == split.variant;
  });
  split.variant_args["axes"] = names_of(axes, mesh);
  if (split.variant == "sync_batch_norm") {
    batch_norm(graph, op, axes, mesh, split);
  }
  return true;
}

}  // namespace shardwright::verify::internal
