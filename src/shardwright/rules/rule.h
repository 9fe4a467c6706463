// Rule: how the dims of an op's tensors walk over its iteration dimensions.
//
// Every op iterates over *factors* (Shardy's term). A rule maps each dim of
// each operand and result to at most one factor; splitting a factor over mesh
// axes then decides the layout of every tensor of the op and of every
// gradient. Nothing downstream looks at op names.
//
// Example, linear with bias (x [4, 16, 8], weight [32, 8], bias [32]):
//
//     factors  batch0 = 4, batch1 = 16, in = 8 (contracted), out = 32
//     operands [batch0, batch1, in]  [out, in]  [out]
//     results  [batch0, batch1, out]
//     terms    {x, weight} + {bias}
//
// What splitting a factor f means for one tensor (see strategy/strategy.h):
// - a tensor with f at dim d is Shard(d), and so is its gradient;
// - a result without f is Partial(sum) when f is contracted;
// - an operand without f is used whole and its gradient is a partial sum,
//   except an addend without a contracted f: it is Partial, one rank adds it.
// A rule is right when these hold for values and gradients; the test
// python/tests/unit/test_strategies.py executes every rule.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shardwright/base/json.h"
#include "shardwright/ir/graph.h"

namespace shardwright::rules {

// Size of a dim = (factor < 0 ? 1 : size of the factor) * times. With times > 1
// the factor is the outer part of the dim: it is cut only between blocks of
// `times` elements.
struct DimFactor {
  std::int32_t factor = -1;
  std::int64_t times = 1;
  bool operator==(const DimFactor&) const = default;
};

struct Factor {
  std::string name;
  std::int64_t size = 1;
  // Some tensor has it with times > 1, so that an uneven cut would fall at
  // different places in different tensors, or an attribute scales with it:
  // the local sizes must be equal.
  bool even_only = false;
  // Summed over: the result is Partial where the factor is split.
  bool contracted = false;
  // Special implementation needed when the factor is split; empty: none.
  std::string variant;
  // A split needs collectives inside the op and gives the same result on all
  // ranks (classes of a cross entropy).
  bool result_replicated = false;
};

struct Rule {
  std::string name;
  std::vector<Factor> factors;
  std::vector<std::vector<DimFactor>> operands;  // by operand, by dim
  std::vector<std::vector<DimFactor>> results;   // by result, by dim
  // The result is the sum of these terms, each made from the operands named
  // (by position) and summed over the contracted factors they have. Operands
  // in no term (indices, masks) are used whole by all terms.
  std::vector<std::vector<std::int32_t>> terms;
  // Linear in the first operand of every term taken together: all of them may
  // be Partial, then the result is.
  bool linear_partial = false;
  // Cheap and linear backward: may take a Partial gradient and hand it on.
  bool delayed = false;
  // Results without gradient that are the same on all ranks whatever is split
  // (counts and offsets beside the values).
  std::vector<std::int32_t> side_results;
  // Attributes that scale with a factor: "groups", or "sizes[0]" for an entry
  // of a list.
  std::vector<std::pair<std::string, DimFactor>> attr_factors;
  // Arguments of the special implementation that do not depend on the mesh.
  Json variant_args = Json::object();

  [[nodiscard]] bool is_side_result(std::size_t position) const;
};

// The op's rule, or nullopt when there is none for this op, its overload or
// these shapes: the op then runs on whole tensors everywhere.
std::optional<Rule> rule_of(const ir::Graph& graph, const ir::Op& op);

// Base names ("linear") of all ATen ops that have a rule, sorted.
std::vector<std::string> ops_with_rules();

// One entry per op, in the order of graph.ops:
// {"rule": name|null, "factors": [{"name", "size"}], "operands": [[{"factor",
// "times"}, ...]], "results": ..., "attr_factors": {...}, "variants": [...]}.
Json factor_maps(const ir::Graph& graph);

}  // namespace shardwright::rules
