// Presolve to a fixed point. Nodes that changed are looked at again, cheap
// rules before dear ones. There is no undo stack: every node carries, for each
// of its choices, what the original nodes merged into it were set to, and an
// answer is read off that table.
#include "shardwright/solver/presolve.h"

#include <fmt/format.h>

#include <numeric>

#include "shardwright/base/check.h"
#include "shardwright/solver/presolve_rules.h"

namespace shardwright::solver::internal {
namespace {

// The rules at one node and its edges. True when something changed.
bool visit(Work* work, std::int32_t id, const SolveOptions& options) {
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
    changed = drop_dominated(work, id) || changed;
  }
  // Merged parallel edges may contradict each other: look again first.
  if (changed) return true;
  if (options.use_contraction) {
    if (contract_group(work, id)) return true;
    for (const std::int32_t e : edges()) {
      if (work->edges[e].alive() && contract(work, e)) return true;
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
      changed = visit(work, static_cast<std::int32_t>(i), options) || changed;
      work->catalogue.trim();
      if (work->infeasible || budget->spent()) return;
    }
    if (!changed) return;
  }
}

std::vector<MemoryInterval> intervals_of(const WorkNode& node,
                                         std::int32_t choice) {
  std::vector<MemoryInterval> out;
  const std::int64_t* bytes = node.shape->bytes_of(choice);
  for (std::int32_t s = 0; s < node.shape->num_segments; ++s) {
    if (bytes[s] == 0) continue;
    const std::int32_t lo = node.positions[s];
    const std::int32_t hi = node.positions[s + 1];
    if (!out.empty() && out.back().hi == lo && out.back().bytes == bytes[s]) {
      out.back().hi = hi;
    } else {
      out.push_back({lo, hi, bytes[s]});
    }
  }
  return out;
}

// Nodes without a choice left to make become one.
class FixedNode {
 public:
  void add(const WorkNode& node) {
    const auto more = intervals_of(node, 0);
    intervals_.insert(intervals_.end(), more.begin(), more.end());
    members_.insert(members_.end(), node.members.begin(), node.members.end());
    const List& values = node.settings->values;
    values_.insert(values_.end(), values.begin(), values.end());
  }
  void move_to(Presolved* out) {
    if (members_.empty()) return;
    out->problem.nodes.push_back(
        {"fixed", {{0, normal_intervals(intervals_)}}});
    out->members.push_back(std::move(members_));
    out->member_choice.push_back({std::move(values_)});
  }

 private:
  std::vector<MemoryInterval> intervals_;
  List members_;
  List values_;
};

void add_node(WorkNode&& node, Presolved* out) {
  Node small;
  small.name = std::move(node.name);
  std::vector<List> settings;
  const std::int32_t count = node.shape->num_choices();
  small.choices.reserve(count);
  settings.reserve(count);
  for (std::int32_t k = 0; k < count; ++k) {
    small.choices.push_back({node.shape->cost[k], intervals_of(node, k)});
    const auto at = node.settings->values.begin() +
                    std::ptrdiff_t{k} * node.settings->num_members;
    settings.emplace_back(at, at + node.settings->num_members);
  }
  out->problem.nodes.push_back(std::move(small));
  out->members.push_back(std::move(node.members));
  out->member_choice.push_back(std::move(settings));
}

void collect(Work&& work, Presolved* out) {
  FixedNode fixed;
  std::vector<std::int32_t> renumbered(work.nodes.size(), -1);
  for (std::size_t i = 0; i < work.nodes.size(); ++i) {
    WorkNode& node = work.nodes[i];
    if (!node.alive) continue;
    if (node.shape->num_choices() == 1 && node.edges.empty()) {
      out->offset += node.shape->cost[0];
      fixed.add(node);
      continue;
    }
    renumbered[i] = static_cast<std::int32_t>(out->problem.nodes.size());
    add_node(std::move(node), out);
  }
  fixed.move_to(out);
  for (const WorkEdge& edge : work.edges) {
    if (!edge.alive()) continue;
    out->problem.edges.push_back(
        {renumbered[edge.a], renumbered[edge.b], edge.table->ends[0]});
  }
}

std::vector<std::string> summary_of(const Work& work) {
  std::vector<std::string> out;
  auto note = [&](const char* rule, std::int64_t count, const char* what) {
    if (count > 0) out.push_back(fmt::format("{}: {} {}", rule, count, what));
  };
  note("arc consistency", work.removed_by_consistency, "choices");
  note("dominance", work.removed_by_dominance, "choices");
  note("contraction", work.contracted, "nodes");
  note("folding", work.folded, "nodes");
  note("edges merged or separated", work.dropped_edges, "edges");
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
  Work work(options.use_sharing, budget);
  load(problem, forbidden, &work);
  List positions(problem.num_positions);
  std::iota(positions.begin(), positions.end(), 0);
  constexpr int kMostRounds = 10;
  for (int round = 0; round < kMostRounds && !work.infeasible; ++round) {
    run_rules(&work, options, budget);
    if (work.infeasible || budget->spent() || !options.use_positions) break;
    const List kept = positions_that_matter(
        &work, static_cast<std::int32_t>(positions.size()), problem.limit);
    if (kept.size() == positions.size()) break;
    keep_positions(&work, kept);
    List original;
    for (const std::int32_t p : kept) original.push_back(positions[p]);
    positions = std::move(original);
  }
  Presolved out;
  out.sharing = work.catalogue.counts();
  if (work.infeasible) {
    out.infeasible = true;
    return out;
  }
  out.summary = summary_of(work);
  out.num_original_nodes = static_cast<std::int32_t>(problem.nodes.size());
  out.offset = work.offset;
  out.positions = std::move(positions);
  out.problem.num_positions = static_cast<std::int32_t>(out.positions.size());
  out.problem.limit = problem.limit;
  collect(std::move(work), &out);
  return out;
}

}  // namespace shardwright::solver::internal
