// The rules.
//
// Consistency: a choice whose every partner at one edge is infinite can go.
// Folding: a node with one choice becomes costs of its neighbours.
// Separable edge: r[k, l] = u[k] + v[l], all finite, is no edge at all.
// Parallel edges: one edge whose classes are the pairs of classes.
// Contraction: when the other end's choice is a function of this one's (each
//   row has a single finite column), the two nodes are one. Done when the
//   function is one to one, or when it does not add edges.
// Leaf: a node with one edge whose best reply to each class of its neighbour
//   is best in cost and in memory at every position is a function of the
//   neighbour as well.
// Dominance: presolve_dominance.h.
//
// What a rule finds depends on shapes and tables alone and comes from the
// catalogue; here is only what happens to the graph.
#include "shardwright/solver/presolve_rules.h"

#include <algorithm>
#include <utility>

#include "shardwright/base/check.h"

namespace shardwright::solver::internal {

void Work::set_shape(std::int32_t id, const Catalogue::Resized& resized) {
  WorkNode& node = nodes[id];
  node.shape = resized.shape;
  if (resized.ends == nullptr) return;
  // The list ascends, so it can be applied in place.
  const List& ends = resized.ends->values;
  for (std::size_t e = 0; e < ends.size(); ++e) {
    node.positions[e] = node.positions[ends[e]];
  }
  node.positions.resize(ends.size());
}

void Work::remove_edge(std::int32_t id) {
  WorkEdge& edge = edges[id];
  std::erase(nodes[edge.a].edges, id);
  std::erase(nodes[edge.b].edges, id);
  touch(edge.a);
  touch(edge.b);
  edge.table = nullptr;
}

void Work::keep_choices(std::int32_t id, const IndicesPtr& kept) {
  WorkNode& node = nodes[id];
  set_shape(id, catalogue.gather(node.shape, kept));
  node.settings = catalogue.gather(node.settings, kept);
  for (const std::int32_t e : node.edges) {
    WorkEdge& edge = edges[e];
    const EdgeTable& before = *edge.table->ends[0];
    const TablePtr after = catalogue.gather(edge.table, edge.end_at(id), kept);
    // With as many rows and columns as before they are the same ones.
    if (after->ends[0]->num_row_classes != before.num_row_classes ||
        after->ends[0]->num_col_classes != before.num_col_classes) {
      touch(edge.other(id));
    }
    edge.table = after;
  }
  if (kept->values.empty()) infeasible = true;
  touch(id);
}

namespace {

// The positions of two nodes together, and whose they are (sum_of_shapes()).
List merge_positions(const List& left, const List& right, List* owners) {
  List out;
  std::size_t l = 0;
  std::size_t r = 0;
  while (l < left.size() || r < right.size()) {
    const bool from_left =
        r == right.size() || (l < left.size() && left[l] <= right[r]);
    const bool from_right =
        l == left.size() || (r < right.size() && right[r] <= left[l]);
    out.push_back(from_left ? left[l] : right[r]);
    owners->push_back((from_left ? 1 : 0) + (from_right ? 2 : 0));
    if (from_left) ++l;
    if (from_right) ++r;
  }
  return out;
}

// Memory, costs and settings of `from` move to `into`.
void add_node(Work* work, std::int32_t into, std::int32_t from,
              const IndicesPtr& reply) {
  Catalogue& catalogue = work->catalogue;
  WorkNode& target = work->nodes[into];
  WorkNode& source = work->nodes[from];
  work->set_shape(from, catalogue.gather(source.shape, reply));
  List owners;
  target.positions =
      merge_positions(target.positions, source.positions, &owners);
  work->set_shape(into, catalogue.sum(target.shape, source.shape,
                                      catalogue.indices(std::move(owners))));
  target.settings =
      catalogue.join(target.settings, catalogue.gather(source.settings, reply));
  target.members.insert(target.members.end(), source.members.begin(),
                        source.members.end());
}

// Merges node `from` into `into`: choice k of `into` implies reply[k]. The
// edges of `from` move along; those between the two become costs.
void absorb(Work* work, std::int32_t into, std::int32_t from,
            const IndicesPtr& reply) {
  Catalogue& catalogue = work->catalogue;
  add_node(work, into, from, reply);
  WorkNode& target = work->nodes[into];
  std::vector<bool> possible(reply->values.size(), true);
  const List moving = work->nodes[from].edges;
  for (const std::int32_t e : moving) {
    WorkEdge& edge = work->edges[e];
    const int end = edge.end_at(from);
    const TablePtr moved = catalogue.gather(edge.table, end, reply);
    if (edge.other(from) != into) {
      (end == 0 ? edge.a : edge.b) = into;
      edge.table = moved;
      target.edges.push_back(e);
      work->touch(edge.other(into));
      continue;
    }
    const Catalogue::Costed costed =
        catalogue.add_diagonal(target.shape, moved);
    target.shape = costed.shape;
    work->remove_edge(e);
    if (costed.finite == nullptr) continue;
    std::vector<bool> finite(possible.size(), false);
    for (const std::int32_t k : costed.finite->values) finite[k] = possible[k];
    possible = std::move(finite);
  }
  work->nodes[from] = WorkNode{};
  work->nodes[from].alive = false;
  work->touch(into);
  List kept;
  for (std::size_t k = 0; k < possible.size(); ++k) {
    if (possible[k]) kept.push_back(static_cast<std::int32_t>(k));
  }
  if (kept.size() == possible.size()) return;
  work->keep_choices(into, catalogue.indices(std::move(kept)));
}

}  // namespace

bool make_consistent(Work* work, std::int32_t id) {
  bool changed = false;
  for (int end = 0; end < 2; ++end) {
    const WorkEdge& edge = work->edges[id];
    const IndicesPtr kept = work->catalogue.possible(edge.table, end);
    if (kept == nullptr) continue;
    const std::int32_t node = end == 0 ? edge.a : edge.b;
    work->removed_by_consistency +=
        work->nodes[node].shape->num_choices() -
        static_cast<std::int64_t>(kept->values.size());
    work->keep_choices(node, kept);
    changed = true;
    if (work->infeasible) break;
  }
  return changed;
}

bool fold_single(Work* work, std::int32_t id) {
  WorkNode& node = work->nodes[id];
  if (node.shape->num_choices() != 1) return false;
  if (node.shape->cost[0] != 0) {
    work->offset += node.shape->cost[0];
    node.shape = work->catalogue.without_cost(node.shape);
  }
  const List edges = node.edges;
  for (const std::int32_t e : edges) {
    const WorkEdge edge = work->edges[e];
    const std::int32_t other = edge.other(id);
    const Catalogue::Costed costed = work->catalogue.add_single(
        work->nodes[other].shape, edge.table, edge.end_at(other));
    work->nodes[other].shape = costed.shape;
    work->remove_edge(e);
    if (costed.finite != nullptr) work->keep_choices(other, costed.finite);
    if (work->infeasible) return true;
  }
  if (!edges.empty()) ++work->folded;
  return !edges.empty();
}

bool separate_edge(Work* work, std::int32_t id) {
  const WorkEdge edge = work->edges[id];
  if (!work->catalogue.separable(edge.table)) return false;
  for (int end = 0; end < 2; ++end) {
    ShapePtr& shape = work->nodes[end == 0 ? edge.a : edge.b].shape;
    shape = work->catalogue.add_separable(shape, edge.table, end);
  }
  work->remove_edge(id);
  ++work->dropped_edges;
  return true;
}

bool merge_parallel(Work* work, std::int32_t id) {
  List& edges = work->nodes[id].edges;
  std::vector<std::pair<std::int32_t, std::int32_t>> by_neighbour;
  for (std::size_t n = 0; n < edges.size(); ++n) {
    by_neighbour.emplace_back(work->edges[edges[n]].other(id),
                              static_cast<std::int32_t>(n));
  }
  std::sort(by_neighbour.begin(), by_neighbour.end());
  List gone;
  for (std::size_t n = 0; n < by_neighbour.size();) {
    const std::int32_t first = edges[by_neighbour[n].second];
    WorkEdge& into = work->edges[first];
    const std::int32_t neighbour = by_neighbour[n++].first;
    for (; n < by_neighbour.size() && by_neighbour[n].first == neighbour; ++n) {
      const std::int32_t e = edges[by_neighbour[n].second];
      into.table = work->catalogue.sum(into.table, work->edges[e].table,
                                       into.a != work->edges[e].a);
      gone.push_back(e);
    }
  }
  for (const std::int32_t e : gone) work->remove_edge(e);
  work->dropped_edges += static_cast<std::int64_t>(gone.size());
  return !gone.empty();
}

bool contract(Work* work, std::int32_t id) {
  for (int end = 0; end < 2; ++end) {
    const WorkEdge& edge = work->edges[id];
    const std::int32_t into = end == 0 ? edge.a : edge.b;
    const std::int32_t from = edge.other(into);
    bool one_to_one = false;
    const IndicesPtr reply =
        work->catalogue.reply(edge.table, end, &one_to_one);
    if (reply == nullptr) continue;
    // A function moves all edges of `from`; with more than one further edge
    // the graph could get harder (think of a hub with many neighbours).
    if (!one_to_one && work->nodes[from].edges.size() > 2) continue;
    absorb(work, into, from, reply);
    ++work->contracted;
    return true;
  }
  return false;
}

bool absorb_leaf(Work* work, std::int32_t id) {
  const WorkNode& leaf = work->nodes[id];
  if (leaf.edges.size() != 1) return false;
  const WorkEdge& edge = work->edges[leaf.edges[0]];
  const IndicesPtr reply =
      work->catalogue.leaf_reply(leaf.shape, edge.table, edge.end_at(id));
  if (reply == nullptr) return false;
  absorb(work, edge.other(id), id, reply);
  ++work->contracted;
  return true;
}

bool drop_dominated(Work* work, std::int32_t id) {
  const WorkNode& node = work->nodes[id];
  if (node.shape->num_choices() < 2) return false;
  std::vector<Catalogue::TableEnd> edges;
  for (const std::int32_t e : node.edges) {
    const WorkEdge& edge = work->edges[e];
    edges.emplace_back(edge.table, edge.end_at(id));
  }
  const IndicesPtr kept = work->catalogue.undominated(node.shape, edges);
  if (kept == nullptr) return false;
  work->removed_by_dominance += node.shape->num_choices() -
                                static_cast<std::int64_t>(kept->values.size());
  work->keep_choices(id, kept);
  return true;
}

}  // namespace shardwright::solver::internal
