// Presolve to a fixed point. Nodes that changed are looked at again, cheap
// rules before dear ones. There is no undo stack: every node carries, for each
// of its choices, what the original nodes merged into it were set to, and an
// answer is read off that table.
//
// Positions. Only a position where something starts can be the highest of its
// neighbourhood, and of a run of starts only the last one counts: at it,
// everything alive at the earlier ones still is. And a position whose largest
// possible sum keeps the limit is never in the way. Forgetting both kinds
// often leaves a fraction of the axis, and choices become equal or dominated
// that were not before.
#include "shardwright/solver/presolve.h"

#include <fmt/format.h>

#include <algorithm>

#include "shardwright/base/check.h"
#include "shardwright/solver/presolve_rules.h"

namespace shardwright::solver::internal {
namespace {

Work make_work(const ChoiceProblem& problem,
               const std::vector<bool>& forbidden) {
  Work work;
  work.nodes.resize(problem.nodes.size());
  work.node_dirty.assign(problem.nodes.size(), true);
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    WorkNode& node = work.nodes[i];
    node.name = problem.nodes[i].name;
    node.members = {static_cast<std::int32_t>(i)};
    for (std::size_t k = 0; k < problem.nodes[i].choices.size(); ++k) {
      const Choice& choice = problem.nodes[i].choices[k];
      node.choices.push_back({choice.cost, normal_intervals(choice.intervals)});
      node.member_choice.push_back({static_cast<std::int32_t>(k)});
    }
  }
  for (const Edge& edge : problem.edges) {
    const EdgeTable& table = *edge.table;
    WorkEdge copy{edge.a,
                  edge.b,
                  true,
                  table.row_class,
                  table.col_class,
                  table.num_row_classes,
                  table.num_col_classes,
                  table.cost};
    for (std::int64_t& cost : copy.cost) cost = std::min(cost, kInfinite);
    compact_edge(&copy);
    const auto id = static_cast<std::int32_t>(work.edges.size());
    work.nodes[edge.a].edges.push_back(id);
    work.nodes[edge.b].edges.push_back(id);
    work.edges.push_back(std::move(copy));
  }
  if (forbidden.empty()) return work;
  std::size_t flat = 0;
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    const std::size_t count = problem.nodes[i].choices.size();
    std::vector<bool> keep;
    for (std::size_t k = 0; k < count; ++k) keep.push_back(!forbidden[flat++]);
    if (std::find(keep.begin(), keep.end(), false) != keep.end()) {
      filter_choices(&work, static_cast<std::int32_t>(i), keep);
    }
  }
  return work;
}

// The rules at one node and its edges. True when something changed.
bool visit(Work* work, std::int32_t id, const SolveOptions& options,
           Budget* budget) {
  bool changed = false;
  auto edges = [&] { return work->nodes[id].edges; };
  if (options.use_arc_consistency) {
    for (const std::int32_t e : edges()) {
      changed = make_consistent(work, e) || changed;
      if (work->infeasible) return true;
    }
  }
  if (options.use_folding) changed = fold_single(work, id) || changed;
  if (work->infeasible) return true;
  if (options.use_parallel_edges) {
    changed = merge_parallel(work, id) || changed;
  }
  if (options.use_separable_edges) {
    for (const std::int32_t e : edges()) {
      changed = separate_edge(work, e) || changed;
    }
  }
  if (options.use_dominance) {
    changed = drop_dominated(work, id, budget) || changed;
  }
  // Merged parallel edges may contradict each other: look again first.
  if (changed) return true;
  if (options.use_contraction) {
    for (const std::int32_t e : edges()) {
      if (work->edges[e].alive && contract(work, e)) return true;
    }
    if (absorb_leaf(work, id)) return true;
  }
  return changed;
}

void run_rules(Work* work, const SolveOptions& options, Budget* budget) {
  constexpr int kMostRounds = 50;
  for (int round = 0; round < kMostRounds; ++round) {
    bool changed = false;
    for (std::size_t i = 0; i < work->nodes.size(); ++i) {
      if (!work->nodes[i].alive || !work->node_dirty[i]) continue;
      work->node_dirty[i] = false;
      changed =
          visit(work, static_cast<std::int32_t>(i), options, budget) || changed;
      if (work->infeasible || budget->spent()) return;
    }
    if (!changed) return;
  }
}

// Which positions of the current axis matter.
std::vector<std::int32_t> positions_that_matter(
    const Work& work, std::int32_t num_positions,
    std::optional<std::int64_t> limit) {
  std::vector<bool> starts(num_positions + 1, false);
  std::vector<bool> ends(num_positions + 1, false);
  std::vector<std::int64_t> most(num_positions + 1, 0);  // changes, then sums
  std::vector<std::pair<std::int32_t, std::int32_t>> cuts;
  auto add_node = [&](const std::vector<Choice>& choices) {
    std::vector<std::int32_t> at;
    for (const Choice& choice : choices) {
      for (const MemoryInterval& item : choice.intervals) {
        starts[item.lo] = true;
        ends[item.hi] = true;
        at.push_back(item.lo);
        at.push_back(item.hi);
      }
    }
    std::sort(at.begin(), at.end());
    at.erase(std::unique(at.begin(), at.end()), at.end());
    std::vector<std::int64_t> largest(at.size(), 0);
    for (const Choice& choice : choices) {
      for (const MemoryInterval& item : choice.intervals) {
        auto n = std::lower_bound(at.begin(), at.end(), item.lo) - at.begin();
        for (; at[n] < item.hi; ++n) {
          largest[n] = std::max(largest[n], item.bytes);
        }
      }
    }
    for (std::size_t n = 0; n + 1 < at.size(); ++n) {
      most[at[n]] += largest[n];
      most[at[n + 1]] -= largest[n];
    }
  };
  for (const WorkNode& node : work.nodes) {
    if (node.alive) add_node(node.choices);
  }
  std::vector<std::int32_t> out;
  std::int64_t sum = 0;
  std::int32_t last_start = -1;
  for (std::int32_t p = 0; p <= num_positions; ++p) {
    // Something ends at p: the last start before it was a local high.
    if (ends[p] && last_start >= 0) {
      out.push_back(last_start);
      last_start = -1;
    }
    if (p == num_positions) break;
    sum += most[p];
    most[p] = sum;
    if (starts[p]) last_start = p;
  }
  if (limit) {
    std::erase_if(out, [&](std::int32_t p) { return most[p] <= *limit; });
  }
  return out;
}

// Renumbers intervals onto the kept positions.
bool keep_positions(Work* work, const std::vector<std::int32_t>& kept,
                    std::vector<std::int32_t>* positions) {
  if (kept.size() == positions->size()) return false;
  auto renumber = [&](std::int32_t p) {
    return static_cast<std::int32_t>(
        std::lower_bound(kept.begin(), kept.end(), p) - kept.begin());
  };
  auto move = [&](Choice* choice) {
    for (MemoryInterval& item : choice->intervals) {
      item.lo = renumber(item.lo);
      item.hi = renumber(item.hi);
    }
    choice->intervals = normal_intervals(choice->intervals);
  };
  for (std::size_t i = 0; i < work->nodes.size(); ++i) {
    if (!work->nodes[i].alive) continue;
    for (Choice& choice : work->nodes[i].choices) move(&choice);
    work->touch(static_cast<std::int32_t>(i));
  }
  std::vector<std::int32_t> original;
  for (const std::int32_t p : kept) original.push_back((*positions)[p]);
  *positions = std::move(original);
  return true;
}

Presolved collect(Work&& work, const ChoiceProblem& problem,
                  std::vector<std::int32_t> positions) {
  Presolved out;
  out.num_original_nodes = static_cast<std::int32_t>(problem.nodes.size());
  out.offset = work.offset;
  out.positions = std::move(positions);
  out.problem.num_positions = static_cast<std::int32_t>(out.positions.size());
  out.problem.limit = problem.limit;
  // Nodes without a choice left to make become one node.
  WorkNode fixed;
  fixed.name = "fixed";
  fixed.choices.resize(1);
  fixed.member_choice.resize(1);
  std::vector<std::int32_t> renumbered(work.nodes.size(), -1);
  auto add = [&](WorkNode&& node) {
    out.problem.nodes.push_back(
        {std::move(node.name), std::move(node.choices)});
    out.members.push_back(std::move(node.members));
    out.member_choice.push_back(std::move(node.member_choice));
  };
  for (std::size_t i = 0; i < work.nodes.size(); ++i) {
    WorkNode& node = work.nodes[i];
    if (!node.alive) continue;
    if (node.choices.size() == 1 && node.edges.empty()) {
      out.offset += node.choices[0].cost;
      auto& intervals = fixed.choices[0].intervals;
      intervals.insert(intervals.end(), node.choices[0].intervals.begin(),
                       node.choices[0].intervals.end());
      fixed.members.insert(fixed.members.end(), node.members.begin(),
                           node.members.end());
      fixed.member_choice[0].insert(fixed.member_choice[0].end(),
                                    node.member_choice[0].begin(),
                                    node.member_choice[0].end());
      continue;
    }
    renumbered[i] = static_cast<std::int32_t>(out.problem.nodes.size());
    add(std::move(node));
  }
  if (!fixed.members.empty()) {
    fixed.choices[0].intervals = normal_intervals(fixed.choices[0].intervals);
    add(std::move(fixed));
  }
  for (WorkEdge& edge : work.edges) {
    if (!edge.alive) continue;
    auto table = std::make_shared<EdgeTable>();
    table->row_class = std::move(edge.row_class);
    table->col_class = std::move(edge.col_class);
    table->num_row_classes = edge.num_rows;
    table->num_col_classes = edge.num_cols;
    table->cost = std::move(edge.cost);
    out.problem.edges.push_back(
        {renumbered[edge.a], renumbered[edge.b], std::move(table)});
  }
  return out;
}

}  // namespace

std::vector<std::int32_t> Presolved::undo(
    const std::vector<std::int32_t>& small) const {
  std::vector<std::int32_t> out(num_original_nodes, -1);
  for (std::size_t i = 0; i < small.size(); ++i) {
    const auto& values = member_choice[i][small[i]];
    for (std::size_t m = 0; m < values.size(); ++m) {
      out[members[i][m]] = values[m];
    }
  }
  for (const std::int32_t k : out) {
    SW_CHECK(k >= 0, "[solver] presolve lost a node");
  }
  return out;
}

Presolved presolve(const ChoiceProblem& problem,
                   const std::vector<bool>& forbidden, Budget* budget) {
  const SolveOptions& options = budget->options();
  Work work = make_work(problem, forbidden);
  std::vector<std::int32_t> positions(problem.num_positions);
  for (std::int32_t p = 0; p < problem.num_positions; ++p) positions[p] = p;
  constexpr int kMostRounds = 10;
  for (int round = 0; round < kMostRounds && !work.infeasible; ++round) {
    run_rules(&work, options, budget);
    if (work.infeasible || budget->spent() || !options.use_positions) break;
    const auto kept = positions_that_matter(
        work, static_cast<std::int32_t>(positions.size()), problem.limit);
    if (!keep_positions(&work, kept, &positions)) break;
  }
  if (work.infeasible) {
    Presolved out;
    out.infeasible = true;
    return out;
  }
  std::vector<std::string> summary;
  auto note = [&](const char* rule, std::int64_t count, const char* what) {
    if (count > 0)
      summary.push_back(fmt::format("{}: {} {}", rule, count, what));
  };
  note("arc consistency", work.removed_by_consistency, "choices");
  note("dominance", work.removed_by_dominance, "choices");
  note("contraction", work.contracted, "nodes");
  note("folding", work.folded, "nodes");
  note("edges merged or separated", work.dropped_edges, "edges");
  Presolved out = collect(std::move(work), problem, std::move(positions));
  out.summary = std::move(summary);
  return out;
}

}  // namespace shardwright::solver::internal
