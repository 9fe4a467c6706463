// Strategy: one way to run an op on a mesh, derived from its factor rule.
//
// A strategy gives each mesh axis a mode: one factor of the rule, nothing
// (`kWhole`), or for cheap linear ops `kPartial` (sums pass through) or
// `kDelayed` (gradient sums pass through). All else follows. For one axis and
// the factor f it has, a tensor's symbol (see sharding/port.h) is
//
//   operand with f            S<d>
//   operand without f         P  an addend, where f is summed over elsewhere
//                             D  otherwise, R if it needs no gradient
//   result with f             S<d>
//   result without f          P  if f is contracted, R if the op's own
//                                collectives make it the same on all ranks
//   no factor                 R everywhere
//   partial                   first operand of each term P, the others D or R,
//                             results P
//   delayed                   D everywhere (R without gradient)
//
// Example: linear [8, 16] x [32, 16] on a=2, b=2 with a -> batch0, b -> out:
// x "S0,D", weight "D,S0", result "S0,S1" - data times column parallel.
// Source: DESIGN of the layout alphabet; Shardy's factors, extended by
// gradients.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shardwright/base/json.h"
#include "shardwright/base/units.h"
#include "shardwright/ir/graph.h"
#include "shardwright/mesh/device_mesh.h"
#include "shardwright/rules/rule.h"
#include "shardwright/sharding/port.h"

namespace shardwright::strategy {

// Modes of an axis beside a factor (>= 0).
inline constexpr std::int32_t kWhole = -1;
inline constexpr std::int32_t kPartial = -2;
inline constexpr std::int32_t kDelayed = -3;

// A collective the op's special implementation issues itself. `bytes` as in
// mesh::collective_time.
struct InternalCollective {
  mesh::CollectiveKind kind = mesh::CollectiveKind::kAllReduce;
  std::int32_t axis = 0;
  Bytes bytes;
  bool backward = false;
  bool operator==(const InternalCollective&) const = default;
};

struct Strategy {
  std::vector<std::int32_t> factor_of_axis;  // factor or a mode above
  std::vector<sharding::Port> operands;      // by operand position
  std::vector<sharding::Port> results;       // by result position
  // Size of every factor of the rule on the rank at coordinate 0, the largest.
  std::vector<std::int64_t> local_factors;
  std::string variant;  // special implementation; empty: the op itself
  Json variant_args = Json::object();
  std::vector<InternalCollective> collectives;
  // Attributes that differ from the graph's; the same on every rank.
  Json local_attrs = Json::object();
  std::string text;  // "a -> batch0, b -> out", "replicate"
};

struct StrategySet {
  std::vector<Strategy> strategies;  // first: replicated on every axis
  bool has_rule = false;
};

// All strategies of the op, without duplicates (equal ports), in a fixed order.
// Left out: splits into unequal or empty parts where the rule or the op cannot
// have them, two special implementations at once, and different layouts of one
// tensor that the op reads twice. Without a rule: the replicated one alone.
// Complexity: (factors + 3) ^ axes.
StrategySet enumerate_strategies(const ir::Graph& graph, const ir::Op& op,
                                 const std::optional<rules::Rule>& rule,
                                 const mesh::DeviceMesh& mesh);

}  // namespace shardwright::strategy
