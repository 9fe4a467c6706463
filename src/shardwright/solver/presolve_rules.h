// The presolve rules at a node or an edge. Each returns true when it changed
// something; presolve.cc has their order.
#pragma once

#include <cstdint>

#include "shardwright/solver/presolve_work.h"

namespace shardwright::solver::internal {

bool make_consistent(Work* work, std::int32_t edge);
bool fold_single(Work* work, std::int32_t node);
bool separate_edge(Work* work, std::int32_t edge);
bool merge_parallel(Work* work, std::int32_t node);
// All nodes tied to this one by one-to-one edges become one.
bool contract_group(Work* work, std::int32_t node);
bool contract(Work* work, std::int32_t edge);
bool absorb_leaf(Work* work, std::int32_t node);
bool drop_dominated(Work* work, std::int32_t node);

}  // namespace shardwright::solver::internal
