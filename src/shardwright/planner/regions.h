// Regions: runs of ops whose activations are kept or recomputed together.
//
// Found from the graph's structure, not from names: ops are compared by what
// they compute (name, attributes, operand shapes), a maximal repeated run of at
// least two equal periods is a run of blocks, and each block is a region. A
// graph without repetition is cut into pieces of about equal work.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shardwright/ir/graph.h"

namespace shardwright::planner {

struct RegionRange {
  std::int32_t first_op = 0;  // [first_op, last_op)
  std::int32_t last_op = 0;
  std::string name;               // longest module path shared by its ops
  std::int32_t block_class = -1;  // equal blocks share it; -1: no repetition
};

// Disjoint, in order. Complexity: O(ops * periods tried), periods bounded.
std::vector<RegionRange> find_regions(const ir::Graph& graph);

}  // namespace shardwright::planner
