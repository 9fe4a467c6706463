// ChoiceProblem: one choice per node, pairwise costs, a limit on memory over
// time. Only numbers: what a node or a choice means is the caller's affair.
//
//   minimise    sum_i cost_i[k_i] + sum_(i,j) r_ij[k_i, k_j]
//   subject to  for every position p:
//               sum of the bytes of chosen intervals with lo <= p < hi
//                   <= limit
//
// Costs are whole numbers (the planner counts picoseconds), memory is bytes.
//
// Example: a tensor is kept (8 ps, 4 bytes on [0, 7)) or recomputed (11 ps,
// 4 bytes on [0, 2) and on [4, 7)); something of 12 bytes lives on [3, 4).
//   keep:      8 ps, peak 16 at position 3
//   recompute: 11 ps, peak 12 at position 3
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shardwright/base/result.h"

namespace shardwright::solver {

// A choice that may not be taken, or a pair that may not be chosen together.
// Any cost at or above it counts as infinite.
inline constexpr std::int64_t kInfinite =
    std::numeric_limits<std::int64_t>::max() / 4;

// The largest total of costs, and of bytes, that a problem may reach: leaves
// room for scaled costs and prices in 64 bits.
inline constexpr std::int64_t kLargestTotal = kInfinite / 16;

// `bytes` are alive at every position p with lo <= p < hi.
struct MemoryInterval {
  std::int32_t lo = 0;
  std::int32_t hi = 0;
  std::int64_t bytes = 0;
  bool operator==(const MemoryInterval&) const = default;
};

struct Choice {
  std::int64_t cost = 0;
  std::vector<MemoryInterval> intervals;
};

// Bytes that the choice has alive at the position.
std::int64_t bytes_at(const Choice& choice, std::int32_t position);

struct Node {
  std::string name;
  std::vector<Choice> choices;
};

// cost(k, l) = cost[row_class[k] * num_col_classes + col_class[l]].
// Choices with equal rows (columns) share a class, and one table serves all
// edges that look alike: both keep deep models small.
struct EdgeTable {
  std::vector<std::int32_t> row_class;  // per choice of the edge's node a
  std::vector<std::int32_t> col_class;  // per choice of the edge's node b
  std::int32_t num_row_classes = 0;
  std::int32_t num_col_classes = 0;
  std::vector<std::int64_t> cost;

  std::int64_t at(std::int32_t k, std::int32_t l) const {
    return cost[static_cast<std::size_t>(row_class[k]) * num_col_classes +
                col_class[l]];
  }
};

// Builds a table from a full row-major matrix, merging equal rows and equal
// columns into classes.
std::shared_ptr<const EdgeTable> make_edge_table(
    std::int32_t num_rows, std::int32_t num_cols,
    const std::vector<std::int64_t>& matrix);

// Several edges may join the same pair of nodes: their costs add.
struct Edge {
  std::int32_t a = 0;
  std::int32_t b = 0;
  std::shared_ptr<const EdgeTable> table;
};

struct ChoiceProblem {
  std::int32_t num_positions = 0;
  std::vector<Node> nodes;
  std::vector<Edge> edges;
  std::optional<std::int64_t> limit;  // no value: memory is free
};

// Indices of the edges at each node, ascending.
std::vector<std::vector<std::int32_t>> edges_of_nodes(
    const ChoiceProblem& problem);

// Checks indices, sizes, interval bounds, signs and totals. A node without
// choices is refused. Error: kInvalidArgument naming the node or edge.
Result<bool> validate(const ChoiceProblem& problem);

}  // namespace shardwright::solver
