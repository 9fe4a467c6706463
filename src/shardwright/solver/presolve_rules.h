// The working copy that the presolve rules change, one function per rule.
#pragma once

#include <cstdint>
#include <vector>

#include "shardwright/solver/budget.h"
#include "shardwright/solver/choice_problem.h"

namespace shardwright::solver::internal {

// Edge table with private classes; rows belong to node a.
struct WorkEdge {
  std::int32_t a = 0;
  std::int32_t b = 0;
  bool alive = true;
  std::vector<std::int32_t> row_class;
  std::vector<std::int32_t> col_class;
  std::int32_t num_rows = 0;
  std::int32_t num_cols = 0;
  std::vector<std::int64_t> cost;

  std::int64_t at(std::int32_t row, std::int32_t col) const {
    return cost[static_cast<std::size_t>(row) * num_cols + col];
  }
  std::int64_t pair(std::int32_t k, std::int32_t l) const {
    return at(row_class[k], col_class[l]);
  }
};

// `intervals` are normal: sorted, disjoint, no empty ones, neighbours differ.
struct WorkNode {
  bool alive = true;
  std::string name;
  std::vector<Choice> choices;
  std::vector<std::int32_t> edges;  // alive ones
  std::vector<std::int32_t> members;
  std::vector<std::vector<std::int32_t>> member_choice;  // per choice
};

struct Work {
  std::vector<WorkNode> nodes;
  std::vector<WorkEdge> edges;
  std::int64_t offset = 0;
  bool infeasible = false;
  std::vector<bool> node_dirty;  // the node's choices or edges changed
  std::int64_t removed_by_consistency = 0;
  std::int64_t removed_by_dominance = 0;
  std::int64_t folded = 0;
  std::int64_t contracted = 0;
  std::int64_t dropped_edges = 0;

  void touch(std::int32_t node) { node_dirty[node] = true; }
  std::int32_t other(const WorkEdge& edge, std::int32_t node) const {
    return edge.a == node ? edge.b : edge.a;
  }
};

// Sorted, disjoint, merged form of a list of intervals.
std::vector<MemoryInterval> normal_intervals(
    const std::vector<MemoryInterval>& intervals);

// Drops the choices with keep[k] == false; edges follow. Touches neighbours.
void filter_choices(Work* work, std::int32_t node,
                    const std::vector<bool>& keep);
// Merges equal rows and columns, drops classes nobody uses.
void compact_edge(WorkEdge* edge);
void remove_edge(Work* work, std::int32_t edge);

// Each returns true when something changed. See presolve.cc for the order.
bool make_consistent(Work* work, std::int32_t edge);
bool fold_single(Work* work, std::int32_t node);
bool separate_edge(Work* work, std::int32_t edge);
bool merge_parallel(Work* work, std::int32_t node);
bool contract(Work* work, std::int32_t edge);
bool absorb_leaf(Work* work, std::int32_t node);
bool drop_dominated(Work* work, std::int32_t node, Budget* budget);

}  // namespace shardwright::solver::internal
