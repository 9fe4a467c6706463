// The working copy that the presolve rules change: where each node stands and
// which of the shared contents (presolve_data.h) it has.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shardwright/solver/catalogue.h"
#include "shardwright/solver/presolve_data.h"

namespace shardwright::solver::internal {

struct WorkEdge {
  std::int32_t a = 0;  // the table's end 0
  std::int32_t b = 0;
  TablePtr table;  // null: the edge is gone

  bool alive() const { return table != nullptr; }
  int end_at(std::int32_t node) const { return a == node ? 0 : 1; }
  std::int32_t other(std::int32_t node) const { return a == node ? b : a; }
};

struct WorkNode {
  bool alive = true;
  std::string name;
  ShapePtr shape;
  List positions;  // of the shape's ends, ascending
  SettingsPtr settings;
  List members;  // original nodes, in the order of the settings
  List edges;    // alive ones
};

struct Work {
  Work(bool share, Budget* budget) : catalogue(share, budget) {}

  Catalogue catalogue;
  std::vector<WorkNode> nodes;
  std::vector<WorkEdge> edges;
  std::int64_t offset = 0;
  bool infeasible = false;
  List place_in_group;           // scratch of contract_group(): -1 everywhere
  std::vector<bool> node_dirty;  // something the rules read there changed
  std::int64_t removed_by_consistency = 0;
  std::int64_t removed_by_dominance = 0;
  std::int64_t folded = 0;
  std::int64_t contracted = 0;
  std::int64_t dropped_edges = 0;

  void touch(std::int32_t node) { node_dirty[node] = true; }
  // The node's shape after a change of its ends.
  void set_shape(std::int32_t node, const Catalogue::Resized& resized);
  // Only these choices stay; edges follow. Touches the node, and neighbours
  // whose tables changed by more than who is in which class.
  void keep_choices(std::int32_t node, const IndicesPtr& kept);
  void remove_edge(std::int32_t edge);
};

// Copies the problem; `forbidden` as in presolve().
void load(const ChoiceProblem& problem, const std::vector<bool>& forbidden,
          Work* work);

// Positions that can be the highest one of some answer and above the limit,
// out of 0 ... num_positions - 1, ascending.
List positions_that_matter(Work* work, std::int32_t num_positions,
                           std::optional<std::int64_t> limit);
// Renumbers the axis onto the kept positions.
void keep_positions(Work* work, const List& kept);

}  // namespace shardwright::solver::internal
