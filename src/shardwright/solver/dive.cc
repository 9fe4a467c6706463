// As long as the mixture of plans differs in memory, the choices of one node
// are split where it differs most, and the better side is taken. After that
// whole batches of nodes are fixed, the clearest first.
//
// How clear a node is: its second best choice's bound less its best one's. What
// is clear by a wide margin is fixed without much thought, and what was fixed
// makes other nodes clear. A step that leads nowhere (its bound reaches the
// best value known) is taken back and tried with fewer nodes; a single node
// that leads nowhere loses that choice.
#include "shardwright/solver/dive.h"

#include <algorithm>
#include <vector>

#include "shardwright/solver/split.h"

namespace shardwright::solver::internal {
namespace {

constexpr double kPartOfNodes = 0.12;  // fixed in one step
constexpr int kMostBacktracks = 12;
constexpr int kRounds = 3;
constexpr int kSweeps = 24;
// Margins are drawn up to this part lower for other seeds.
constexpr double kNoise = 0.5;

struct Candidate {
  double margin = 0;
  std::int32_t node = 0;
  std::int32_t flat = 0;
};

struct State {
  Allowed allowed;
  Relaxation::Prices prices;
  Relaxation::Start start;
  std::vector<std::int32_t> plans;
  std::vector<Relaxation::Weighted> mixture;
  std::int64_t bound = 0;
  std::vector<Candidate> candidates;  // the clearest first
};

class Dive {
 public:
  Dive(Relaxation* relaxation, Primal* primal, const SearchLimits& limits,
       std::uint64_t seed, Budget* budget)
      : relaxation_(*relaxation),
        primal_(*primal),
        limits_(limits),
        seed_(seed),
        budget_(*budget) {}

  void run(const Allowed& allowed, const SearchResult& root) {
    State state{allowed, root.prices, root.start, root.plans, {}, 0, {}};
    if (!look(&state)) return;
    while (split(&state)) {
    }
    std::size_t batch = batch_of(state);
    int backtracks = 0;
    while (!state.candidates.empty() && !budget_.spent()) {
      State next = state;
      batch = std::min(batch, state.candidates.size());
      for (std::size_t n = 0; n < batch; ++n) fix(state.candidates[n], &next);
      if (look(&next)) {
        state = std::move(next);
        batch = batch_of(state);
        continue;
      }
      if (++backtracks > kMostBacktracks) return;
      if (batch > 1) {
        batch = std::max<std::size_t>(1, batch / 4);
        continue;
      }
      state.allowed[state.candidates[0].flat] = 0;
      if (!look(&state)) return;
      batch = batch_of(state);
    }
  }

 private:
  // Takes the better side of a node where the mixture differs in memory. False:
  // there is none, or both sides lead nowhere.
  bool split(State* state) {
    const Split sides = split_by_memory(relaxation_, state->prices,
                                        state->mixture, state->allowed);
    if (sides.node < 0 || budget_.spent()) return false;
    State left = *state;
    State right = *state;
    for (const std::int32_t flat : sides.right) left.allowed[flat] = 0;
    for (const std::int32_t flat : sides.left) right.allowed[flat] = 0;
    const bool left_good = look(&left);
    const bool right_good = look(&right);
    if (!left_good && !right_good) return false;
    const bool takes_left =
        left_good && (!right_good || left.bound <= right.bound);
    *state = std::move(takes_left ? left : right);
    return true;
  }

  static std::size_t batch_of(const State& state) {
    return std::max<std::size_t>(
        1, static_cast<std::size_t>(kPartOfNodes *
                                    double(state.candidates.size())));
  }

  void fix(const Candidate& candidate, State* state) const {
    const FlatIndex& index = relaxation_.index();
    for (std::int32_t f = index.first[candidate.node];
         f < index.first[candidate.node + 1]; ++f) {
      if (f != candidate.flat) state->allowed[f] = 0;
    }
  }

  // Bounds and candidates of the state; false when it cannot lead to a better
  // value than the best known.
  bool look(State* state) {
    const std::int64_t cutoff = cutoff_of(primal_.value(), limits_);
    Relaxation::Effort effort;
    effort.rounds = kRounds;
    effort.sweeps = kSweeps;
    effort.tolerance = 1e-5;
    effort.cutoff = cutoff;
    effort.start = state->start;
    const auto outcome = relaxation_.tighten(
        state->allowed, state->prices, state->plans, effort,
        [&](const std::vector<std::int32_t>& plan) { primal_.offer(plan); });
    if (budget_.spent() || outcome.bound >= cutoff_of(primal_.value(), limits_))
      return false;
    state->prices = outcome.prices;
    state->start = outcome.start;
    state->plans = outcome.plans;
    state->mixture = outcome.mixture;
    state->bound = outcome.bound;
    std::vector<std::int64_t> bounds;
    if (!relaxation_.choice_bounds(state->allowed, state->prices, state->start,
                                   kSweeps, &bounds)) {
      return false;
    }
    return rank(bounds, state);
  }

  bool rank(const std::vector<std::int64_t>& bounds, State* state) {
    const FlatIndex& index = relaxation_.index();
    const std::int64_t cutoff = cutoff_of(primal_.value(), limits_);
    state->candidates.clear();
    for (std::int32_t i = 0; i < index.num_nodes(); ++i) {
      std::int64_t best = kInfinite;
      std::int64_t second = kInfinite;
      std::int32_t best_flat = -1;
      int count = 0;
      for (std::int32_t f = index.first[i]; f < index.first[i + 1]; ++f) {
        if (state->allowed[f] == 0) continue;
        if (bounds[f] >= cutoff) {
          state->allowed[f] = 0;
          continue;
        }
        ++count;
        if (bounds[f] < best) {
          second = best;
          best = bounds[f];
          best_flat = f;
        } else {
          second = std::min(second, bounds[f]);
        }
      }
      if (count == 0) return false;
      if (count == 1) continue;
      state->candidates.push_back(
          {noisy(double(second) - double(best), best_flat), i, best_flat});
    }
    std::stable_sort(
        state->candidates.begin(), state->candidates.end(),
        [](const auto& l, const auto& r) { return l.margin > r.margin; });
    return true;
  }

  double noisy(double margin, std::int32_t flat) const {
    if (seed_ == 0) return margin;
    std::uint64_t x = seed_ * 0x9e3779b97f4a7c15ULL +
                      static_cast<std::uint64_t>(flat) * 0xbf58476d1ce4e5b9ULL;
    x ^= x >> 31;
    x *= 0x94d049bb133111ebULL;
    x ^= x >> 29;
    return margin * (1 - kNoise * double(x >> 11) * 0x1.0p-53);
  }

  Relaxation& relaxation_;
  Primal& primal_;
  const SearchLimits& limits_;
  std::uint64_t seed_;
  Budget& budget_;
};

}  // namespace

bool dive(Relaxation* relaxation, Primal* primal, const Allowed& allowed,
          const SearchResult& root, const SearchLimits& limits,
          std::uint64_t seed, Budget* budget) {
  const std::int64_t before = primal->value();
  Dive(relaxation, primal, limits, seed, budget).run(allowed, root);
  return primal->value() < before;
}

}  // namespace shardwright::solver::internal
