#include "shardwright/solver/neighbourhood.h"

#include <algorithm>

#include "shardwright/solver/branch.h"
#include "shardwright/solver/evaluate.h"
#include "shardwright/solver/presolve.h"

namespace shardwright::solver::internal {
namespace {

constexpr std::size_t kFirstSize = 8;
constexpr std::size_t kLargestSize = 64;
// Work that one window may take, and its largest table.
constexpr std::int64_t kTicksOfAWindow = 40'000'000;
constexpr std::int64_t kCellsOfAWindow = std::int64_t{1} << 20;

// A profile as intervals of equal height.
std::vector<MemoryInterval> intervals_of(
    const std::vector<std::int64_t>& profile) {
  std::vector<MemoryInterval> out;
  for (std::size_t p = 0; p < profile.size(); ++p) {
    const auto position = static_cast<std::int32_t>(p);
    if (profile[p] == 0) continue;
    if (!out.empty() && out.back().hi == position &&
        out.back().bytes == profile[p]) {
      ++out.back().hi;
    } else {
      out.push_back({position, position + 1, profile[p]});
    }
  }
  return out;
}

// Equal blocks have equal peaks, and no window lowers all of them. So a window
// looks at the positions that its own nodes reach: lowering those, window by
// window, lowers the peak in the end (the profile, sorted, only falls).
void forget_untouched(const ChoiceProblem& window,
                      std::vector<std::int64_t>* profile) {
  std::vector<bool> touched(profile->size(), false);
  for (const Node& node : window.nodes) {
    for (const Choice& choice : node.choices) {
      for (const MemoryInterval& item : choice.intervals) {
        std::fill(touched.begin() + item.lo, touched.begin() + item.hi, true);
      }
    }
  }
  for (std::size_t p = 0; p < touched.size(); ++p) {
    if (!touched[p]) (*profile)[p] = 0;
  }
}

}  // namespace

Neighbourhood::Neighbourhood(const ChoiceProblem& problem, Goal goal,
                             Budget* budget)
    : problem_(problem),
      goal_(goal),
      budget_(budget),
      edges_of_(edges_of_nodes(problem)) {}

std::vector<std::int32_t> Neighbourhood::around(std::int32_t seed,
                                                std::size_t size) const {
  std::vector<std::int32_t> out = {seed};
  std::vector<bool> seen(problem_.nodes.size(), false);
  seen[seed] = true;
  for (std::size_t n = 0; n < out.size(); ++n) {
    for (const std::int32_t e : edges_of_[out[n]]) {
      const Edge& edge = problem_.edges[e];
      const std::int32_t other = edge.a == out[n] ? edge.b : edge.a;
      if (seen[other] || problem_.nodes[other].choices.size() < 2) continue;
      if (out.size() >= size) return out;
      seen[other] = true;
      out.push_back(other);
    }
  }
  return out;
}

Neighbourhood::Window Neighbourhood::window_of(
    std::vector<std::int32_t> nodes,
    const std::vector<std::int32_t>& choice) const {
  Window out;
  out.nodes = std::move(nodes);
  out.problem.num_positions = problem_.num_positions;
  out.problem.limit = problem_.limit;
  std::vector<std::int32_t> place(problem_.nodes.size(), -1);
  for (std::size_t i = 0; i < out.nodes.size(); ++i) {
    place[out.nodes[i]] = static_cast<std::int32_t>(i);
  }
  std::vector<std::int64_t> rest = memory_profile(problem_, choice);
  std::vector<bool> taken(problem_.edges.size(), false);
  for (const std::int32_t i : out.nodes) {
    Node node = problem_.nodes[i];
    for (const MemoryInterval& item : node.choices[choice[i]].intervals) {
      for (std::int32_t p = item.lo; p < item.hi; ++p) rest[p] -= item.bytes;
    }
    std::vector<bool> forbidden(node.choices.size(), false);
    for (const std::int32_t e : edges_of_[i]) {
      const Edge& edge = problem_.edges[e];
      const std::int32_t other = edge.a == i ? edge.b : edge.a;
      if (place[other] >= 0) {
        if (taken[e]) continue;
        taken[e] = true;
        out.problem.edges.push_back({place[edge.a], place[edge.b], edge.table});
        continue;
      }
      for (std::size_t k = 0; k < node.choices.size(); ++k) {
        const auto mine = static_cast<std::int32_t>(k);
        const std::int64_t cost = edge.a == i
                                      ? edge.table->at(mine, choice[other])
                                      : edge.table->at(choice[other], mine);
        if (cost >= kInfinite) {
          forbidden[k] = true;
        } else {
          node.choices[k].cost += cost;
        }
      }
    }
    out.forbidden.insert(out.forbidden.end(), forbidden.begin(),
                         forbidden.end());
    out.problem.nodes.push_back(std::move(node));
  }
  if (goal_ == Goal::kPeak) forget_untouched(out.problem, &rest);
  Node others{"others", {Choice{0, intervals_of(rest)}}};
  out.problem.nodes.push_back(std::move(others));
  out.forbidden.push_back(false);
  return out;
}

bool Neighbourhood::solve(const Window& window,
                          std::vector<std::int32_t>* choice) {
  std::vector<std::int32_t> now;
  for (const std::int32_t i : window.nodes) now.push_back((*choice)[i]);
  now.push_back(0);
  const Evaluation before = evaluate(window.problem, now);
  SolveOptions options = budget_->options();
  options.progress = nullptr;
  options.table_cells = kCellsOfAWindow;
  options.tick_limit = kTicksOfAWindow;
  options.time_limit_s -= budget_->seconds();
  Budget own(options);
  const Presolved small = presolve(window.problem, window.forbidden, &own);
  std::vector<std::int32_t> found;
  if (!small.infeasible && !own.spent()) {
    Relaxation relaxation(small.problem, goal_, &own);
    Primal primal(small.problem, goal_, &own);
    primal.know_value(goal_ == Goal::kCost ? before.cost - small.offset
                                           : before.peak);
    const Allowed all(relaxation.index().total(), 1);
    if (relaxation.exact()) {
      SearchLimits limits;
      limits.offset = small.offset;
      limits.reports = false;
      search_root(&relaxation, &primal, all, limits, &own);
      if (!primal.choice().empty()) found = small.undo(primal.choice());
    }
  }
  budget_->charge(own.ticks());
  if (found.empty()) return false;
  const Evaluation after = evaluate(window.problem, found);
  const bool better =
      goal_ == Goal::kCost
          ? after.feasible(problem_.limit) && after.cost < before.cost
          : after.cost < kInfinite && after.peak < before.peak;
  if (!better) return false;
  for (std::size_t i = 0; i < window.nodes.size(); ++i) {
    (*choice)[window.nodes[i]] = found[i];
  }
  return true;
}

// Windows around seeds that no window of this round has covered yet.
bool Neighbourhood::round(std::size_t size, std::int64_t end,
                          std::vector<std::int32_t>* choice) {
  bool improved = false;
  std::vector<bool> covered(problem_.nodes.size(), false);
  for (std::size_t i = 0; i < problem_.nodes.size(); ++i) {
    if (budget_->spent() || budget_->ticks() >= end) break;
    if (covered[i] || problem_.nodes[i].choices.size() < 2) continue;
    const Window window =
        window_of(around(static_cast<std::int32_t>(i), size), *choice);
    // The outer half of a window is in the inner half of another one.
    for (std::size_t n = 0; n < (window.nodes.size() + 1) / 2; ++n) {
      covered[window.nodes[n]] = true;
    }
    improved = solve(window, choice) || improved;
  }
  return improved;
}

bool Neighbourhood::improve(std::vector<std::int32_t>* choice,
                            std::int64_t ticks) {
  const std::int64_t end = budget_->ticks() + ticks;
  bool improved = false;
  std::size_t size = kFirstSize;
  while (!budget_->spent() && budget_->ticks() < end) {
    if (round(size, end, choice)) {
      improved = true;
    } else if (size >= kLargestSize) {
      break;
    } else {
      size *= 2;
    }
  }
  return improved;
}

}  // namespace shardwright::solver::internal
