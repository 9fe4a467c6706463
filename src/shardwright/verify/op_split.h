// What a step's claim ("a -> batch0, b -> out") means for its op, derived from
// the op's factor rule: layouts of all tensors and of their gradients, local
// factor sizes, the special implementation and its collectives.
//
// On one mesh axis with factor f (rules/rule.h gives the words):
//   a tensor with f            split there, gradient alike
//   a result without f         partial if f is summed over, else the same
//                              everywhere, which f must declare
//   an operand without f       whole, its gradient a partial sum; but the
//                              first operand of a term without a summed f is
//                              itself partial: one rank adds the term
// Without a factor all is whole; "partial" and "delayed" pass sums through,
// forward or backward, where the rule allows it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shardwright/base/json.h"
#include "shardwright/base/result.h"
#include "shardwright/ir/graph.h"
#include "shardwright/plan/plan.h"
#include "shardwright/rules/rule.h"
#include "shardwright/verify/layout.h"

namespace shardwright::verify::internal {

// Layout of a tensor and of its gradient.
struct Side {
  Layout forward;
  Layout gradient;
};

// One mode per mesh axis: a factor, or one of these.
inline constexpr std::int32_t kWholeAxis = -1;
inline constexpr std::int32_t kPartialAxis = -2;
inline constexpr std::int32_t kDelayedAxis = -3;

struct OpSplit {
  std::vector<std::int32_t> modes;  // per axis
  std::vector<Side> operands, results;
  std::vector<std::int64_t> local_factors;
  std::string variant;
  Json variant_args = Json::object();
  Json local_attrs = Json::object();
  std::vector<plan::InternalCollective> forward, backward;

  [[nodiscard]] bool splits() const;  // some axis has a factor
};

// Derives the split of `op` under the strategy text of its step. Errors:
// kInvalidPlan (a text that names no factor, a mode the rule forbids, a split
// into unequal or empty parts that the rule cannot have).
Result<OpSplit> derive_split(const ir::Graph& graph, const ir::Op& op,
                             const std::optional<rules::Rule>& rule,
                             const std::string& strategy,
                             const mesh::DeviceMesh& mesh);

// Fills variant, variant_args and collectives (variants.cc). Errors:
// kInvalidPlan, two special implementations at once.
Result<bool> derive_variant(const ir::Graph& graph, const ir::Op& op,
                            const rules::Rule& rule,
                            const mesh::DeviceMesh& mesh, OpSplit& split);

// Equal as JSON objects, whatever the order of their keys.
bool same_json(const Json& left, const Json& right);

}  // namespace shardwright::verify::internal
