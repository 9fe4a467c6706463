// Branch and bound. A node of the tree forbids some choices; its bound comes
// from a few rounds of prices that start at the parent's. The mixture of plans
// at the optimum of the relaxation says where the relaxation cheats: a problem
// node that is half "small and slow", half "large and fast". Its choices are
// split at the mean of their price-weighted bytes, so that the mixture is cut
// off on both sides and both sides lose about half of the cheating.
//
// The open node with the lowest bound goes first (ties: the older one), so the
// proven bound rises all the time. A node is dropped when its bound reaches
// the cutoff: the best value less the gap that was asked for.
#include "shardwright/solver/branch.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "shardwright/solver/split.h"

namespace shardwright::solver::internal {
namespace {

constexpr int kRootRounds = 150;
constexpr int kNodeRounds = 12;
constexpr int kEarlyRounds = 6;
// Recombination costs about as much as some eliminations: not at every node.
constexpr std::int64_t kNodesPerRecombination = 8;

struct OpenNode {
  std::int64_t bound = 0;
  std::vector<std::int32_t> forbidden;  // flat choices, on top of the root's
  Relaxation::Prices prices;
  Relaxation::Start start;
  std::vector<Relaxation::Weighted> mixture;
  std::vector<std::int32_t> plans;
};

Allowed allowed_in(const Allowed& root, const OpenNode& node) {
  Allowed out = root;
  for (const std::int32_t flat : node.forbidden) out[flat] = 0;
  return out;
}

bool good_enough(const Primal& primal, const SearchLimits& limits) {
  return limits.stop_at_enough && limits.enough &&
         primal.value() <= *limits.enough;
}

void report(const Budget& budget, const SearchLimits& limits,
            const Primal& primal, std::int64_t bound, const char* technique) {
  if (!budget.options().progress || !limits.reports) return;
  Progress progress;
  progress.technique = technique;
  progress.seconds = budget.seconds();
  if (primal.found()) progress.cost = primal.value() + limits.offset;
  if (bound > -kInfinite) progress.bound = bound + limits.offset;
  budget.options().progress(progress);
}

}  // namespace

std::int64_t cutoff_of(std::int64_t value, const SearchLimits& limits) {
  if (value >= kInfinite) return kInfinite;
  const double room =
      std::floor(limits.gap * std::abs(double(value) + double(limits.offset)));
  std::int64_t cutoff = value - static_cast<std::int64_t>(room);
  if (limits.enough) {
    cutoff = std::max(cutoff, std::min(value, *limits.enough + 1));
  }
  return cutoff;
}

bool is_closed(std::int64_t bound, const Primal& primal,
               const SearchLimits& limits) {
  return bound >= cutoff_of(primal.value(), limits) ||
         good_enough(primal, limits);
}

SearchResult search_root(Relaxation* relaxation, Primal* primal,
                         const Allowed& allowed, const SearchLimits& limits,
                         Budget* budget) {
  SearchResult out;
  const bool recombines = budget->options().use_recombination;
  out.bound = limits.known_bound;
  auto sink = [&](const std::vector<std::int32_t>& choice) {
    primal->offer(choice);
  };
  Relaxation::Effort effort;
  effort.rounds = kRootRounds;
  effort.tolerance = 1e-6;
  int round = 0;
  effort.watch = [&](std::int64_t bound) {
    out.bound = std::max(out.bound, bound);
    // A first choice soon; later ones come from better prices.
    if (recombines && ++round <= kEarlyRounds) primal->recombine();
    report(*budget, limits, *primal, out.bound, "prices");
  };
  effort.cutoff = kInfinite;
  if (limits.stop_when_proven && limits.enough) {
    effort.cutoff = *limits.enough + 1;
  }
  const auto outcome = relaxation->tighten(allowed, {}, {}, effort, sink);
  out.bound = std::max(outcome.bound, limits.known_bound);
  out.prices = outcome.prices;
  out.start = outcome.start;
  out.plans = outcome.plans;
  out.num_nodes = 1;
  auto closed = [&] { return is_closed(out.bound, *primal, limits); };
  report(*budget, limits, *primal, out.bound, "prices");
  if (recombines && !closed()) primal->recombine();
  report(*budget, limits, *primal, out.bound, "recombination");
  // More plans around the best prices: dearer memory leads to feasible plans,
  // noise breaks the ties between equal layers.
  constexpr double kFactors[] = {1.0, 1.1, 0.95, 1.3, 0.9, 1.6, 1.05, 2.5};
  constexpr int kSampleRounds = 2;
  for (int again = 0; recombines && again < kSampleRounds; ++again) {
    if (closed() || budget->spent() || out.bound >= kInfinite) break;
    for (std::size_t n = 0; n < std::size(kFactors) && !budget->spent(); ++n) {
      relaxation->sample(
          allowed, out.prices, kFactors[n], again == 0 && n == 0 ? 0.0 : 0.02,
          budget->options().seed * 1000 + std::uint64_t(again) * 100 + n, sink);
    }
    primal->recombine();
    report(*budget, limits, *primal, out.bound, "recombination");
  }
  out.bound = std::min(out.bound, primal->value());
  out.finished = closed();
  return out;
}

SearchResult branch_and_bound(Relaxation* relaxation, Primal* primal,
                              const Allowed& allowed, const SearchResult& root,
                              const SearchLimits& limits, Budget* budget) {
  SearchResult out = root;
  std::map<std::pair<std::int64_t, std::int64_t>, OpenNode> open;
  std::int64_t next_id = 0;
  std::int64_t after_proof = limits.nodes_after_proof;
  std::int64_t dropped = kInfinite;  // least bound of a node that was dropped
  const FlatIndex& index = relaxation->index();
  auto sink = [&](const std::vector<std::int32_t>& choice) {
    primal->offer(choice);
  };
  auto expand = [&](OpenNode node, bool is_root) {
    const Allowed here = allowed_in(allowed, node);
    Relaxation::Effort effort;
    effort.rounds = is_root ? kRootRounds : kNodeRounds;
    effort.tolerance = is_root ? 1e-6 : 1e-5;
    effort.cutoff = cutoff_of(primal->value(), limits);
    effort.start = node.start;
    const auto outcome =
        relaxation->tighten(here, node.prices, node.plans, effort, sink);
    node.bound = std::max(node.bound, outcome.bound);
    node.prices = outcome.prices;
    node.start = outcome.start;
    node.mixture = outcome.mixture;
    node.plans = outcome.plans;
    if (node.bound >= cutoff_of(primal->value(), limits) && !budget->spent()) {
      dropped = std::min(dropped, node.bound);
      return;
    }
    open.emplace(std::pair{node.bound, next_id++}, std::move(node));
  };
  OpenNode start;
  start.bound = root.bound;
  start.prices = root.prices;
  start.start = root.start;
  start.plans = root.plans;
  expand(std::move(start), true);
  auto bound_now = [&] {
    std::int64_t bound = std::min(dropped, primal->value());
    if (!open.empty()) bound = std::min(bound, open.begin()->first.first);
    return bound;
  };
  while (!open.empty() && !budget->spent() &&
         out.num_nodes < limits.most_nodes && !good_enough(*primal, limits)) {
    if (limits.enough && bound_now() > *limits.enough) {
      if (limits.stop_when_proven || --after_proof < 0) break;
    }
    if (open.begin()->first.first >= cutoff_of(primal->value(), limits)) break;
    OpenNode node = std::move(open.begin()->second);
    open.erase(open.begin());
    const Allowed here = allowed_in(allowed, node);
    Split split = split_by_memory(*relaxation, node.prices, node.mixture, here);
    if (split.node < 0) split = split_anywhere(*relaxation, node.mixture, here);
    if (split.node < 0) {
      // One choice everywhere: its plan was offered, there is nothing else.
      continue;
    }
    for (const auto* side : {&split.right, &split.left}) {
      OpenNode child;
      child.bound = node.bound;
      child.prices = node.prices;
      child.start = node.start;
      child.plans = node.plans;
      child.forbidden = node.forbidden;
      child.forbidden.insert(child.forbidden.end(), side->begin(), side->end());
      ++out.num_nodes;
      expand(std::move(child), false);
    }
    if (budget->options().use_recombination &&
        out.num_nodes / 2 % kNodesPerRecombination == 0) {
      primal->recombine();
    }
    report(*budget, limits, *primal, bound_now(), "branch and bound");
    budget->charge(index.total() * 4);
  }
  out.bound = std::max(root.bound, bound_now());
  out.bound = std::min(out.bound, primal->value());
  out.finished = !budget->spent() && out.num_nodes < limits.most_nodes;
  return out;
}

}  // namespace shardwright::solver::internal
