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
// (Dominance has a file of its own.)
#include "shardwright/solver/presolve_rules.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace shardwright::solver::internal {

std::vector<MemoryInterval> normal_intervals(
    const std::vector<MemoryInterval>& intervals) {
  if (intervals.empty()) return {};
  std::vector<std::pair<std::int32_t, std::int64_t>> events;
  for (const MemoryInterval& item : intervals) {
    if (item.lo >= item.hi || item.bytes == 0) continue;
    events.emplace_back(item.lo, item.bytes);
    events.emplace_back(item.hi, -item.bytes);
  }
  std::sort(events.begin(), events.end());
  std::vector<MemoryInterval> out;
  std::int64_t alive = 0;
  for (std::size_t n = 0; n < events.size();) {
    const std::int32_t at = events[n].first;
    const std::int64_t before = alive;
    while (n < events.size() && events[n].first == at) {
      alive += events[n++].second;
    }
    if (alive == before) continue;
    if (!out.empty() && out.back().hi < 0) out.back().hi = at;
    if (alive > 0) out.push_back({at, -1, alive});
  }
  return out;
}

namespace {

// Numbers the distinct lines; returns a representative per number.
std::vector<std::int32_t> distinct(std::int32_t count,
                                   std::vector<std::int32_t>* number,
                                   auto&& line_of) {
  std::map<std::vector<std::int64_t>, std::int32_t> seen;
  std::vector<std::int32_t> first;
  number->assign(count, -1);
  for (std::int32_t r = 0; r < count; ++r) {
    const auto [found, is_new] =
        seen.try_emplace(line_of(r), static_cast<std::int32_t>(seen.size()));
    (*number)[r] = found->second;
    if (is_new) first.push_back(r);
  }
  return first;
}

// Drops unused numbers from a classification; returns the kept old numbers.
std::vector<std::int32_t> used_classes(std::vector<std::int32_t>* class_of,
                                       std::int32_t count) {
  std::vector<std::int32_t> renamed(count, -1);
  for (const std::int32_t c : *class_of) renamed[c] = 0;
  std::vector<std::int32_t> kept;
  for (std::int32_t c = 0; c < count; ++c) {
    if (renamed[c] < 0) continue;
    renamed[c] = static_cast<std::int32_t>(kept.size());
    kept.push_back(c);
  }
  for (std::int32_t& c : *class_of) c = renamed[c];
  return kept;
}

void select(WorkEdge* edge, const std::vector<std::int32_t>& rows,
            const std::vector<std::int32_t>& cols) {
  std::vector<std::int64_t> cost;
  cost.reserve(rows.size() * cols.size());
  for (const std::int32_t r : rows) {
    for (const std::int32_t c : cols) cost.push_back(edge->at(r, c));
  }
  edge->cost = std::move(cost);
  edge->num_rows = static_cast<std::int32_t>(rows.size());
  edge->num_cols = static_cast<std::int32_t>(cols.size());
}

void transpose(WorkEdge* edge) {
  std::vector<std::int64_t> cost;
  cost.reserve(edge->cost.size());
  for (std::int32_t c = 0; c < edge->num_cols; ++c) {
    for (std::int32_t r = 0; r < edge->num_rows; ++r) {
      cost.push_back(edge->at(r, c));
    }
  }
  edge->cost = std::move(cost);
  std::swap(edge->a, edge->b);
  std::swap(edge->row_class, edge->col_class);
  std::swap(edge->num_rows, edge->num_cols);
}

bool memory_at_most(const std::vector<MemoryInterval>& small,
                    const std::vector<MemoryInterval>& large) {
  std::size_t n = 0;
  for (const MemoryInterval& item : small) {
    std::int32_t at = item.lo;
    while (at < item.hi) {
      while (n < large.size() && large[n].hi <= at) ++n;
      if (n == large.size() || large[n].lo > at ||
          large[n].bytes < item.bytes) {
        return false;
      }
      at = large[n].hi;
    }
  }
  return true;
}

}  // namespace

void compact_edge(WorkEdge* edge) {
  const auto used_rows = used_classes(&edge->row_class, edge->num_rows);
  const auto used_cols = used_classes(&edge->col_class, edge->num_cols);
  select(edge, used_rows, used_cols);
  std::vector<std::int32_t> row_number;
  const auto rows = distinct(edge->num_rows, &row_number, [&](std::int32_t r) {
    const auto begin = edge->cost.begin() + std::int64_t{r} * edge->num_cols;
    return std::vector<std::int64_t>(begin, begin + edge->num_cols);
  });
  std::vector<std::int32_t> col_number;
  const auto cols = distinct(edge->num_cols, &col_number, [&](std::int32_t c) {
    std::vector<std::int64_t> line;
    for (const std::int32_t r : rows) line.push_back(edge->at(r, c));
    return line;
  });
  select(edge, rows, cols);
  for (std::int32_t& c : edge->row_class) c = row_number[c];
  for (std::int32_t& c : edge->col_class) c = col_number[c];
}

namespace {

void drop_choices_if_any(Work* work, std::int32_t id,
                         const std::vector<bool>& keep) {
  if (std::find(keep.begin(), keep.end(), false) == keep.end()) return;
  filter_choices(work, id, keep);
}

}  // namespace

void remove_edge(Work* work, std::int32_t id) {
  WorkEdge& edge = work->edges[id];
  std::erase(work->nodes[edge.a].edges, id);
  std::erase(work->nodes[edge.b].edges, id);
  work->touch(edge.a);
  work->touch(edge.b);
  edge = WorkEdge{edge.a, edge.b, false, {}, {}, 0, 0, {}};
}

void filter_choices(Work* work, std::int32_t id,
                    const std::vector<bool>& keep) {
  WorkNode& node = work->nodes[id];
  auto filter = [&](auto* list) {
    std::size_t kept = 0;
    for (std::size_t k = 0; k < keep.size(); ++k) {
      if (!keep[k]) continue;
      if (kept != k) (*list)[kept] = std::move((*list)[k]);
      ++kept;
    }
    list->resize(kept);
  };
  filter(&node.choices);
  filter(&node.member_choice);
  for (const std::int32_t e : node.edges) {
    WorkEdge& edge = work->edges[e];
    filter(edge.a == id ? &edge.row_class : &edge.col_class);
    compact_edge(&edge);
    work->touch(work->other(edge, id));
  }
  if (node.choices.empty()) work->infeasible = true;
  work->touch(id);
}

namespace {

// Merges node `from` into `into`: choice k of `into` implies reply[k].
void absorb(Work* work, std::int32_t into, std::int32_t from,
            std::int32_t edge_id, const std::vector<std::int32_t>& reply) {
  WorkNode& target = work->nodes[into];
  WorkNode& source = work->nodes[from];
  const WorkEdge& edge = work->edges[edge_id];
  for (std::size_t k = 0; k < target.choices.size(); ++k) {
    const Choice& extra = source.choices[reply[k]];
    Choice& choice = target.choices[k];
    choice.cost += extra.cost;
    const auto row = static_cast<std::int32_t>(k);
    choice.cost +=
        edge.a == into ? edge.pair(row, reply[k]) : edge.pair(reply[k], row);
    if (!extra.intervals.empty()) {
      choice.intervals.insert(choice.intervals.end(), extra.intervals.begin(),
                              extra.intervals.end());
      choice.intervals = normal_intervals(choice.intervals);
    }
    const auto& moved = source.member_choice[reply[k]];
    target.member_choice[k].insert(target.member_choice[k].end(), moved.begin(),
                                   moved.end());
  }
  target.members.insert(target.members.end(), source.members.begin(),
                        source.members.end());
  remove_edge(work, edge_id);
  std::vector<bool> keep(target.choices.size(), true);
  const std::vector<std::int32_t> moving = source.edges;
  for (const std::int32_t e : moving) {
    WorkEdge& moved = work->edges[e];
    auto& classes = moved.a == from ? moved.row_class : moved.col_class;
    std::vector<std::int32_t> mapped;
    for (const std::int32_t l : reply) mapped.push_back(classes[l]);
    classes = std::move(mapped);
    (moved.a == from ? moved.a : moved.b) = into;
    if (moved.a == moved.b) {  // a second edge between the two
      for (std::size_t k = 0; k < keep.size(); ++k) {
        const auto at = static_cast<std::int32_t>(k);
        const std::int64_t pair = moved.pair(at, at);
        keep[k] = keep[k] && pair < kInfinite;
        if (pair < kInfinite) target.choices[k].cost += pair;
      }
      remove_edge(work, e);
      continue;
    }
    target.edges.push_back(e);
    compact_edge(&moved);
    work->touch(work->other(moved, into));
  }
  source = WorkNode{};
  source.alive = false;
  work->touch(into);
  drop_choices_if_any(work, into, keep);
}

}  // namespace

bool make_consistent(Work* work, std::int32_t id) {
  bool changed = false;
  for (int side = 0; side < 2; ++side) {
    const WorkEdge& edge = work->edges[id];
    const bool rows = side == 0;
    const std::int32_t count = rows ? edge.num_rows : edge.num_cols;
    const std::int32_t partners = rows ? edge.num_cols : edge.num_rows;
    std::vector<bool> possible(count, false);
    for (std::int32_t c = 0; c < count; ++c) {
      for (std::int32_t p = 0; p < partners && !possible[c]; ++p) {
        possible[c] = (rows ? edge.at(c, p) : edge.at(p, c)) < kInfinite;
      }
    }
    if (std::find(possible.begin(), possible.end(), false) == possible.end()) {
      continue;
    }
    std::vector<bool> keep;
    for (const std::int32_t c : rows ? edge.row_class : edge.col_class) {
      keep.push_back(possible[c]);
      work->removed_by_consistency += possible[c] ? 0 : 1;
    }
    filter_choices(work, rows ? edge.a : edge.b, keep);
    changed = true;
    if (work->infeasible) break;
  }
  return changed;
}

bool fold_single(Work* work, std::int32_t id) {
  WorkNode& node = work->nodes[id];
  if (node.choices.size() != 1) return false;
  work->offset += node.choices[0].cost;
  node.choices[0].cost = 0;
  const std::vector<std::int32_t> edges = node.edges;
  for (const std::int32_t e : edges) {
    const WorkEdge& edge = work->edges[e];
    const std::int32_t other = work->other(edge, id);
    std::vector<bool> keep;
    for (std::size_t k = 0; k < work->nodes[other].choices.size(); ++k) {
      const auto l = static_cast<std::int32_t>(k);
      const std::int64_t pair =
          edge.a == id ? edge.pair(0, l) : edge.pair(l, 0);
      keep.push_back(pair < kInfinite);
      if (keep.back()) work->nodes[other].choices[k].cost += pair;
    }
    remove_edge(work, e);
    drop_choices_if_any(work, other, keep);
    if (work->infeasible) return true;
  }
  if (!edges.empty()) ++work->folded;
  return !edges.empty();
}

bool separate_edge(Work* work, std::int32_t id) {
  const WorkEdge& edge = work->edges[id];
  for (const std::int64_t cost : edge.cost) {
    if (cost >= kInfinite) return false;
  }
  for (std::int32_t r = 1; r < edge.num_rows; ++r) {
    for (std::int32_t c = 1; c < edge.num_cols; ++c) {
      if (edge.at(r, c) - edge.at(0, c) != edge.at(r, 0) - edge.at(0, 0)) {
        return false;
      }
    }
  }
  auto& rows = work->nodes[edge.a].choices;
  for (std::size_t k = 0; k < rows.size(); ++k) {
    rows[k].cost += edge.at(edge.row_class[k], 0);
  }
  auto& cols = work->nodes[edge.b].choices;
  for (std::size_t l = 0; l < cols.size(); ++l) {
    cols[l].cost += edge.at(0, edge.col_class[l]) - edge.at(0, 0);
  }
  remove_edge(work, id);
  ++work->dropped_edges;
  return true;
}

bool merge_parallel(Work* work, std::int32_t id) {
  bool changed = false;
  std::map<std::int32_t, std::int32_t> first;  // neighbour -> edge
  const std::vector<std::int32_t> edges = work->nodes[id].edges;
  for (const std::int32_t e : edges) {
    const auto [found, is_new] =
        first.try_emplace(work->other(work->edges[e], id), e);
    if (is_new) continue;
    WorkEdge& into = work->edges[found->second];
    WorkEdge& from = work->edges[e];
    if (into.a != from.a) transpose(&from);
    // Classes of the sum: pairs of classes that occur.
    std::vector<std::int32_t> row_number;
    std::vector<std::int32_t> col_number;
    const auto rows = distinct(static_cast<std::int32_t>(into.row_class.size()),
                               &row_number, [&](std::int32_t k) {
                                 return std::vector<std::int64_t>{
                                     into.row_class[k], from.row_class[k]};
                               });
    const auto cols = distinct(static_cast<std::int32_t>(into.col_class.size()),
                               &col_number, [&](std::int32_t l) {
                                 return std::vector<std::int64_t>{
                                     into.col_class[l], from.col_class[l]};
                               });
    std::vector<std::int64_t> cost;
    for (const std::int32_t k : rows) {
      for (const std::int32_t l : cols) {
        const std::int64_t left = into.pair(k, l);
        const std::int64_t right = from.pair(k, l);
        cost.push_back(left >= kInfinite || right >= kInfinite ? kInfinite
                                                               : left + right);
      }
    }
    into.cost = std::move(cost);
    into.num_rows = static_cast<std::int32_t>(rows.size());
    into.num_cols = static_cast<std::int32_t>(cols.size());
    into.row_class = std::move(row_number);
    into.col_class = std::move(col_number);
    compact_edge(&into);
    remove_edge(work, e);
    ++work->dropped_edges;
    changed = true;
  }
  return changed;
}

namespace {

// reply[k] of the other end for each choice of `node`, when unique.
bool function_of(const WorkEdge& edge, std::int32_t node,
                 std::vector<std::int32_t>* reply, bool* one_to_one) {
  const bool rows = edge.a == node;
  const auto& mine = rows ? edge.row_class : edge.col_class;
  const auto& theirs = rows ? edge.col_class : edge.row_class;
  const std::int32_t num_mine = rows ? edge.num_rows : edge.num_cols;
  const std::int32_t num_theirs = rows ? edge.num_cols : edge.num_rows;
  std::vector<std::int32_t> size(num_theirs, 0);
  std::vector<std::int32_t> choice(num_theirs, -1);
  for (std::size_t l = 0; l < theirs.size(); ++l) {
    ++size[theirs[l]];
    choice[theirs[l]] = static_cast<std::int32_t>(l);
  }
  std::vector<std::int32_t> reply_of_class(num_mine, -1);
  for (std::int32_t r = 0; r < num_mine; ++r) {
    for (std::int32_t c = 0; c < num_theirs; ++c) {
      if ((rows ? edge.at(r, c) : edge.at(c, r)) >= kInfinite) continue;
      if (reply_of_class[r] >= 0 || size[c] != 1) return false;
      reply_of_class[r] = choice[c];
    }
    if (reply_of_class[r] < 0) return false;  // consistency comes first
  }
  reply->clear();
  std::vector<bool> used(theirs.size(), false);
  *one_to_one = true;
  for (const std::int32_t c : mine) {
    reply->push_back(reply_of_class[c]);
    if (used[reply->back()]) *one_to_one = false;
    used[reply->back()] = true;
  }
  return true;
}

}  // namespace

bool contract(Work* work, std::int32_t id) {
  for (int side = 0; side < 2; ++side) {
    const WorkEdge& edge = work->edges[id];
    const std::int32_t into = side == 0 ? edge.a : edge.b;
    const std::int32_t from = work->other(edge, into);
    std::vector<std::int32_t> reply;
    bool one_to_one = false;
    if (!function_of(edge, into, &reply, &one_to_one)) continue;
    // A function moves all edges of `from`; with more than one further edge
    // the graph could get harder (think of a hub with many neighbours).
    if (!one_to_one && work->nodes[from].edges.size() > 2) continue;
    absorb(work, into, from, id, reply);
    ++work->contracted;
    return true;
  }
  return false;
}

bool absorb_leaf(Work* work, std::int32_t id) {
  const WorkNode& leaf = work->nodes[id];
  if (leaf.edges.size() != 1) return false;
  const std::int32_t edge_id = leaf.edges[0];
  const WorkEdge& edge = work->edges[edge_id];
  const bool leaf_is_col = edge.b == id;
  const std::int32_t other = work->other(edge, id);
  const std::int32_t count = leaf_is_col ? edge.num_rows : edge.num_cols;
  const auto& leaf_class = leaf_is_col ? edge.col_class : edge.row_class;
  std::vector<std::int32_t> reply_of_class(count, -1);
  auto cost_of = [&](std::int32_t c, std::size_t l) {
    const std::int64_t pair =
        leaf_is_col ? edge.at(c, leaf_class[l]) : edge.at(leaf_class[l], c);
    return pair >= kInfinite ? kInfinite : pair + leaf.choices[l].cost;
  };
  for (std::int32_t c = 0; c < count; ++c) {
    std::int32_t best = -1;
    for (std::size_t l = 0; l < leaf.choices.size(); ++l) {
      const std::int64_t cost = cost_of(c, l);
      if (cost >= kInfinite) continue;
      if (best >= 0) {
        const std::int64_t least = cost_of(c, best);
        if (cost > least) continue;
        if (cost == least && !memory_at_most(leaf.choices[l].intervals,
                                             leaf.choices[best].intervals)) {
          continue;
        }
      }
      best = static_cast<std::int32_t>(l);
    }
    if (best < 0) return false;
    for (std::size_t l = 0; l < leaf.choices.size(); ++l) {
      if (cost_of(c, l) < kInfinite &&
          !memory_at_most(leaf.choices[best].intervals,
                          leaf.choices[l].intervals)) {
        return false;
      }
    }
    reply_of_class[c] = best;
  }
  std::vector<std::int32_t> reply;
  for (const std::int32_t c : leaf_is_col ? edge.row_class : edge.col_class) {
    reply.push_back(reply_of_class[c]);
  }
  absorb(work, other, id, edge_id, reply);
  ++work->contracted;
  return true;
}

}  // namespace shardwright::solver::internal
