#include "shardwright/strategy/variant.h"

#include <functional>

namespace shardwright::strategy {
namespace {

using mesh::CollectiveKind;
using rules::Factor;
using rules::Rule;

constexpr std::int64_t kMeanReduction = 1;  // ATen's Reduction enum
constexpr std::int64_t kCountBytes = 8;     // int64

using FactorTest = std::function<bool(const Factor&)>;

// Axes whose factor passes the test, in mesh order.
std::vector<std::int32_t> axes_with(const Rule& rule, const Strategy& strategy,
                                    const FactorTest& test) {
  std::vector<std::int32_t> axes;
  for (std::size_t a = 0; a < strategy.factor_of_axis.size(); ++a) {
    const std::int32_t factor = strategy.factor_of_axis[a];
    if (factor < 0) continue;
    if (test(rule.factors[static_cast<std::size_t>(factor)])) {
      axes.push_back(static_cast<std::int32_t>(a));
    }
  }
  return axes;
}

Json names(const std::vector<std::int32_t>& axes,
           const mesh::DeviceMesh& mesh) {
  Json out = Json::array();
  for (const std::int32_t axis : axes) {
    out.push_back(mesh.axes[static_cast<std::size_t>(axis)].name);
  }
  return out;
}

void all_reduce(Strategy& strategy, const std::vector<std::int32_t>& axes,
                std::int64_t bytes, bool backward = false) {
  for (const std::int32_t axis : axes) {
    strategy.collectives.push_back(
        {CollectiveKind::kAllReduce, axis, Bytes(bytes), backward});
  }
}

void cross_entropy(const ir::Graph& graph, const ir::Op& op, const Rule& rule,
                   const mesh::DeviceMesh& mesh, Strategy& strategy) {
  const auto rows =
      axes_with(rule, strategy, [](const Factor& f) { return f.contracted; });
  const auto classes = axes_with(
      rule, strategy, [](const Factor& f) { return f.result_replicated; });
  strategy.variant_args["row_axes"] = names(rows, mesh);
  strategy.variant_args["class_axes"] = names(classes, mesh);
  std::int64_t local_rows = 1;
  for (std::size_t f = 0; f < rule.factors.size(); ++f) {
    if (rule.factors[f].contracted) local_rows *= strategy.local_factors[f];
  }
  const auto reduction = op.attrs.value("reduction", kMeanReduction);
  if (reduction == kMeanReduction) all_reduce(strategy, rows, kCountBytes);
  const std::int64_t element = ir::size_of(graph.value(op.operands[0]).dtype);
  all_reduce(strategy, classes, local_rows * element);
  all_reduce(strategy, classes, 2 * local_rows * element);
}

void sync_batch_norm(const ir::Graph& graph, const ir::Op& op, const Rule& rule,
                     Strategy& strategy) {
  const auto axes = axes_with(rule, strategy, [](const Factor& f) {
    return f.variant == "sync_batch_norm";
  });
  const rules::DimFactor& channel = rule.operands[0][1];
  std::int64_t channels = channel.times;
  if (channel.factor >= 0) {
    channels *=
        strategy.local_factors[static_cast<std::size_t>(channel.factor)];
  }
  const std::int64_t bytes =
      channels * ir::size_of(graph.value(op.operands[0]).dtype);
  all_reduce(strategy, axes, bytes);
  all_reduce(strategy, axes, bytes);
  if (graph.value(op.results[0]).requires_grad) {
    all_reduce(strategy, axes, 2 * bytes, /*backward=*/true);
  }
}

// The one special implementation that the split factors ask for; nullopt when
// they ask for several.
std::optional<std::string> needed(const ir::Op& op, const Rule& rule,
                                  const Strategy& strategy) {
  std::string variant = op.random ? "random" : "";
  for (const std::int32_t factor : strategy.factor_of_axis) {
    if (factor < 0) continue;
    const std::string& wanted =
        rule.factors[static_cast<std::size_t>(factor)].variant;
    if (wanted.empty() || wanted == variant) continue;
    if (!variant.empty()) return std::nullopt;
    variant = wanted;
  }
  return variant;
}

}  // namespace

bool assign_variant(const ir::Graph& graph, const ir::Op& op, const Rule& rule,
                    const mesh::DeviceMesh& mesh, Strategy& strategy) {
  const std::optional<std::string> variant = needed(op, rule, strategy);
  if (!variant) return false;
  strategy.variant = *variant;
  if (variant->empty()) return true;
  if (*variant != "random") strategy.variant_args = rule.variant_args;
  if (*variant == "cross_entropy") {
    cross_entropy(graph, op, rule, mesh, strategy);
    return true;
  }
  strategy.variant_args["axes"] =
      names(axes_with(rule, strategy,
                      [&](const Factor& f) { return f.variant == *variant; }),
            mesh);
  if (*variant == "sync_batch_norm") {
    sync_batch_norm(graph, op, rule, strategy);
  }
  return true;
}

}  // namespace shardwright::strategy
