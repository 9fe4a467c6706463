// Recombination. Two plans differ on some nodes; joined by the edges between
// differing nodes these form components. A component may be taken from either
// plan whatever the other components do: towards every node outside it both
// plans agree, so each edge sees a pair that occurs in one of the two plans,
// and none is infinite. The cost and the memory of a component's swap are
// therefore fixed numbers, and choosing the components is a knapsack over
// time. Layers differ independently of each other in plans of repeated
// blocks, which makes hundreds of components: enough to come within a few
// hundredths of a percent of the bound.
//
// The knapsack is solved greedily, from both ends (cheap plan: buy memory back
// at the best rate; feasible plan: take savings that fit), and improved by
// exchanging pairs. Every accepted state is feasible by exact integers: the
// profile is kept in a tree with range addition and maximum.
#include "shardwright/solver/recombine.h"

#include <algorithm>
#include <numeric>

#include "shardwright/solver/evaluate.h"

namespace shardwright::solver::internal {
namespace {

// Plans remembered; the oldest is replaced.
constexpr std::size_t kPoolSize = 40;
// Swaps looked at in pairs.
constexpr std::size_t kExchangeSwaps = 80;

}  // namespace

PeakTree::PeakTree(std::int32_t num_positions) : length_(num_positions) {
  while (size_ < std::max(1, length_)) size_ *= 2;
  most_.assign(2 * size_, 0);
  pending_.assign(2 * size_, 0);
}

void PeakTree::add(std::int32_t lo, std::int32_t hi, std::int64_t bytes) {
  if (lo >= hi) return;
  auto touch = [&](std::int32_t at) {
    most_[at] += bytes;
    pending_[at] += bytes;
  };
  std::int32_t left = lo + size_;
  std::int32_t right = hi + size_;
  for (; left < right; left /= 2, right /= 2) {
    if (left & 1) touch(left++);
    if (right & 1) touch(--right);
  }
  auto rise = [&](std::int32_t at) {
    for (at /= 2; at >= 1; at /= 2) {
      most_[at] = std::max(most_[2 * at], most_[2 * at + 1]) + pending_[at];
    }
  };
  rise(lo + size_);
  rise(hi - 1 + size_);
}

std::int32_t PeakTree::peak_position() const {
  std::int32_t at = 1;
  while (at < size_)
    at = most_[2 * at] >= most_[2 * at + 1] ? 2 * at : 2 * at + 1;
  return std::min(at - size_, std::max(0, length_ - 1));
}

struct Primal::Swap {
  std::vector<std::int32_t> nodes;
  std::int64_t cost = 0;                // change of cost from -> to
  std::vector<MemoryInterval> changes;  // bytes may be negative
  std::int64_t area = 0;                // bytes x positions, change
  bool done = false;                    // state has `to` here

  std::int64_t bytes_at(std::int32_t position) const {
    const auto after = std::upper_bound(
        changes.begin(), changes.end(), position,
        [](std::int32_t p, const MemoryInterval& item) { return p < item.lo; });
    if (after == changes.begin()) return 0;
    const MemoryInterval& item = *(after - 1);
    return position < item.hi ? item.bytes : 0;
  }
};

struct Primal::State {
  const std::vector<std::int32_t>& from;
  const std::vector<std::int32_t>& to;
  std::int64_t cost;
  PeakTree tree;
  Budget* budget;

  State(const ChoiceProblem& problem, const std::vector<std::int32_t>& start,
        const std::vector<std::int32_t>& target, std::int64_t start_cost,
        Budget* work)
      : from(start),
        to(target),
        cost(start_cost),
        tree(problem.num_positions),
        budget(work) {
    for (std::size_t i = 0; i < start.size(); ++i) {
      for (const auto& item : problem.nodes[i].choices[start[i]].intervals) {
        tree.add(item.lo, item.hi, item.bytes);
      }
    }
    budget->charge(static_cast<std::int64_t>(start.size()) * 40);
  }

  void flip(Swap* swap) {
    const std::int64_t sign = swap->done ? -1 : 1;
    for (const MemoryInterval& item : swap->changes) {
      tree.add(item.lo, item.hi, sign * item.bytes);
    }
    cost += sign * swap->cost;
    swap->done = !swap->done;
    budget->charge(static_cast<std::int64_t>(swap->changes.size()) * 60 + 10);
  }

  std::vector<std::int32_t> choice(const std::vector<Swap>& swaps) const {
    std::vector<std::int32_t> out = from;
    for (const Swap& swap : swaps) {
      if (!swap.done) continue;
      for (const std::int32_t i : swap.nodes) out[i] = to[i];
    }
    return out;
  }
};

Primal::Primal(const ChoiceProblem& problem, Goal goal, Budget* budget)
    : problem_(problem),
      goal_(goal),
      budget_(budget),
      limit_(problem.limit.value_or(kInfinite)),
      edges_of_(edges_of_nodes(problem)) {}

std::int64_t Primal::price_of(const Plan& plan) const {
  if (goal_ == Goal::kPeak) return plan.peak;
  return plan.peak <= limit_ ? plan.cost : kInfinite;
}

bool Primal::keep(const std::vector<std::int32_t>& choice) {
  const Evaluation value = evaluate(problem_, choice);
  budget_->charge(static_cast<std::int64_t>(choice.size()) * 10 +
                  problem_.num_positions);
  if (value.cost >= kInfinite) return false;
  const std::int64_t price = price_of({{}, value.cost, value.peak});
  if (price >= value_) return false;
  value_ = price;
  choice_ = choice;
  return true;
}

void Primal::offer(const std::vector<std::int32_t>& choice) {
  const Evaluation value = evaluate(problem_, choice);
  budget_->charge(static_cast<std::int64_t>(choice.size()) * 10 +
                  problem_.num_positions);
  if (value.cost >= kInfinite) return;
  for (const Plan& plan : pool_) {
    if (plan.cost == value.cost && plan.peak == value.peak &&
        plan.choice == choice) {
      return;
    }
  }
  const Plan plan{choice, value.cost, value.peak};
  const std::int64_t price = price_of(plan);
  if (price < value_) {
    value_ = price;
    choice_ = choice;
  }
  if (pool_.size() < kPoolSize) {
    pool_.push_back(plan);
  } else {
    pool_[next_slot_] = plan;
    next_slot_ = (next_slot_ + 1) % kPoolSize;
  }
}

std::vector<Primal::Swap> Primal::swaps_between(
    const std::vector<std::int32_t>& from,
    const std::vector<std::int32_t>& to) const {
  std::vector<Swap> out;
  std::vector<std::int32_t> owner(from.size(), -1);
  for (std::size_t start = 0; start < from.size(); ++start) {
    if (from[start] == to[start] || owner[start] >= 0) continue;
    const auto id = static_cast<std::int32_t>(out.size());
    Swap swap;
    swap.nodes.push_back(static_cast<std::int32_t>(start));
    owner[start] = id;
    std::vector<MemoryInterval> events;  // lo: position, bytes: change
    for (std::size_t n = 0; n < swap.nodes.size(); ++n) {
      const std::int32_t i = swap.nodes[n];
      const Choice& before = problem_.nodes[i].choices[from[i]];
      const Choice& after = problem_.nodes[i].choices[to[i]];
      swap.cost += after.cost - before.cost;
      for (const MemoryInterval& item : before.intervals) {
        events.push_back({item.lo, 0, -item.bytes});
        events.push_back({item.hi, 0, item.bytes});
      }
      for (const MemoryInterval& item : after.intervals) {
        events.push_back({item.lo, 0, item.bytes});
        events.push_back({item.hi, 0, -item.bytes});
      }
      for (const std::int32_t e : edges_of_[i]) {
        const Edge& edge = problem_.edges[e];
        const std::int32_t j = edge.a == i ? edge.b : edge.a;
        const bool differs = from[j] != to[j];
        if (differs && owner[j] < 0) {
          owner[j] = id;
          swap.nodes.push_back(j);
        }
        if (differs && i > j) continue;  // counted from the other end
        swap.cost += edge.table->at(to[edge.a], to[edge.b]) -
                     edge.table->at(from[edge.a], from[edge.b]);
      }
    }
    std::sort(events.begin(), events.end(),
              [](const auto& l, const auto& r) { return l.lo < r.lo; });
    std::int64_t alive = 0;
    for (std::size_t n = 0; n + 1 < events.size(); ++n) {
      alive += events[n].bytes;
      if (events[n].lo == events[n + 1].lo || alive == 0) continue;
      swap.changes.push_back({events[n].lo, events[n + 1].lo, alive});
      swap.area += alive * (events[n + 1].lo - events[n].lo);
    }
    out.push_back(std::move(swap));
  }
  return out;
}

namespace {

// Order by saving per byte-position given up; pure gains first.
template <typename Swaps>
std::vector<std::size_t> by_rate(const Swaps& swaps) {
  std::vector<double> rate;
  for (const auto& swap : swaps) {
    const double cost = swap.done ? -double(swap.cost) : double(swap.cost);
    const double area = swap.done ? -double(swap.area) : double(swap.area);
    rate.push_back(area <= 0 ? cost * 1e9 : cost / area);
  }
  std::vector<std::size_t> order(swaps.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](auto left, auto right) {
    return rate[left] < rate[right];
  });
  return order;
}

}  // namespace

// Flips every swap that saves cost and keeps the limit.
void Primal::take_gains(State* state, std::vector<Swap>* swaps) {
  for (const std::size_t s : by_rate(*swaps)) {
    Swap& swap = (*swaps)[s];
    if ((swap.done ? -swap.cost : swap.cost) >= 0) continue;
    state->flip(&swap);
    if (state->tree.peak() > limit_) state->flip(&swap);
    if (budget_->spent()) return;
  }
}

// Flips pairs: one that saves more than the other costs.
void Primal::exchange(State* state, std::vector<Swap>* swaps) {
  std::vector<std::size_t> order(swaps->size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](auto left, auto right) {
    const Swap& l = (*swaps)[left];
    const Swap& r = (*swaps)[right];
    return (l.done ? -l.cost : l.cost) < (r.done ? -r.cost : r.cost);
  });
  if (order.size() > kExchangeSwaps) order.resize(kExchangeSwaps);
  bool improved = true;
  while (improved && !budget_->spent()) {
    improved = false;
    for (const std::size_t first : order) {
      Swap& gain = (*swaps)[first];
      const std::int64_t saved = gain.done ? gain.cost : -gain.cost;
      if (saved <= 0) continue;
      state->flip(&gain);
      bool fits = state->tree.peak() <= limit_;
      const std::int32_t at = state->tree.peak_position();
      for (std::size_t n = 0; n < order.size() && !fits; ++n) {
        Swap& price = (*swaps)[order[n]];
        if (order[n] == first) continue;
        if ((price.done ? -price.cost : price.cost) >= saved) continue;
        const std::int64_t relief = price.bytes_at(at);
        if ((price.done ? -relief : relief) >= 0) continue;
        state->flip(&price);
        fits = state->tree.peak() <= limit_;
        if (!fits) state->flip(&price);
      }
      if (!fits) state->flip(&gain);
      improved = improved || fits;
      if (budget_->spent()) return;
    }
  }
}

// From a state over the limit: flips, at the current peak, the swap with the
// least cost per byte of relief, until the limit is kept. False: it cannot be
// kept with these swaps.
bool Primal::repair(State* state, std::vector<Swap>* swaps) {
  for (std::size_t step = 0; step <= 2 * swaps->size(); ++step) {
    const std::int64_t over = state->tree.peak() - limit_;
    if (over <= 0) return true;
    if (budget_->spent()) return false;
    const std::int32_t at = state->tree.peak_position();
    Swap* best = nullptr;
    double best_rate = 0;
    for (Swap& swap : *swaps) {
      const std::int64_t change = swap.bytes_at(at);
      const std::int64_t relief = swap.done ? change : -change;
      if (relief <= 0) continue;
      const double cost = swap.done ? -double(swap.cost) : double(swap.cost);
      const double rate = cost / double(std::min(relief, over));
      if (best != nullptr && rate >= best_rate) continue;
      best = &swap;
      best_rate = rate;
    }
    budget_->charge(static_cast<std::int64_t>(swaps->size()) * 20);
    if (best == nullptr) return false;
    state->flip(best);
  }
  return state->tree.peak() <= limit_;
}

// Flips whatever takes bytes away from the peak without making a higher one.
// Equal heights elsewhere are accepted (repeated layers have equal peaks), so
// each swap may move only a few times.
void Primal::lower_peak(State* state, std::vector<Swap>* swaps) {
  constexpr int kMostFlips = 3;
  std::vector<int> flips(swaps->size(), 0);
  bool improved = true;
  while (improved && !budget_->spent()) {
    improved = false;
    const std::int32_t at = state->tree.peak_position();
    const std::int64_t before = state->tree.peak();
    Swap* level = nullptr;  // keeps the height, moves the peak elsewhere
    for (std::size_t s = 0; s < swaps->size(); ++s) {
      Swap& swap = (*swaps)[s];
      const std::int64_t change = swap.bytes_at(at);
      if (flips[s] >= kMostFlips || (swap.done ? change : -change) <= 0) {
        continue;
      }
      state->flip(&swap);
      if (state->tree.peak() < before) {
        improved = true;
        ++flips[s];
        break;
      }
      if (state->tree.peak() == before && level == nullptr) level = &swap;
      state->flip(&swap);
    }
    if (!improved && level != nullptr) {
      state->flip(level);
      ++flips[level - swaps->data()];
      improved = true;
    }
  }
}

bool Primal::combine(const Plan& base, const Plan& other) {
  std::vector<Swap> swaps = swaps_between(base.choice, other.choice);
  budget_->charge(static_cast<std::int64_t>(base.choice.size()) * 4);
  if (swaps.empty()) return false;
  State state(problem_, base.choice, other.choice, base.cost, budget_);
  if (goal_ == Goal::kPeak) {
    lower_peak(&state, &swaps);
    return state.tree.peak() < value_ && keep(state.choice(swaps));
  }
  bool improved = false;
  auto finish = [&] {
    if (state.tree.peak() > limit_ && !repair(&state, &swaps)) return;
    take_gains(&state, &swaps);
    exchange(&state, &swaps);
    if (state.cost < value_) improved = keep(state.choice(swaps)) || improved;
  };
  finish();
  // And from the other end.
  for (Swap& swap : swaps) {
    if (!swap.done) state.flip(&swap);
  }
  finish();
  return improved;
}

// Changes of one node that save cost and keep the limit.
bool Primal::polish() {
  if (goal_ != Goal::kCost || choice_.empty()) return false;
  std::vector<std::int32_t> choice = choice_;
  const std::vector<std::int32_t> start = choice;
  State state(problem_, start, start, value_, budget_);
  bool improved = false;
  for (std::size_t i = 0; i < choice.size() && !budget_->spent(); ++i) {
    const auto& choices = problem_.nodes[i].choices;
    for (std::size_t k = 0; k < choices.size(); ++k) {
      const std::int32_t old = choice[i];
      std::int64_t change = choices[k].cost - choices[old].cost;
      for (const std::int32_t e : edges_of_[i]) {
        const Edge& edge = problem_.edges[e];
        const std::int64_t before =
            edge.table->at(choice[edge.a], choice[edge.b]);
        choice[i] = static_cast<std::int32_t>(k);
        const std::int64_t after =
            edge.table->at(choice[edge.a], choice[edge.b]);
        choice[i] = old;
        change = after >= kInfinite ? kInfinite : change + after - before;
        if (change >= kForbidden) break;
      }
      budget_->charge(static_cast<std::int64_t>(edges_of_[i].size()) + 2);
      if (change >= 0) continue;
      auto add = [&](std::size_t which, std::int64_t sign) {
        for (const MemoryInterval& item : choices[which].intervals) {
          state.tree.add(item.lo, item.hi, sign * item.bytes);
        }
      };
      add(old, -1);
      add(k, 1);
      if (state.tree.peak() <= limit_) {
        choice[i] = static_cast<std::int32_t>(k);
        improved = true;
      } else {
        add(k, -1);
        add(old, 1);
      }
    }
  }
  return improved && keep(choice);
}

bool Primal::recombine() {
  if (pool_.empty()) return false;
  const std::int64_t start = value_;
  constexpr int kRounds = 4;
  for (int round = 0; round < kRounds; ++round) {
    const std::int64_t before = value_;
    // Without a choice of our own, start from the best plan: feasible ones by
    // cost, others by peak.
    const auto lowest = std::min_element(
        pool_.begin(), pool_.end(), [&](const Plan& l, const Plan& r) {
          return std::pair{price_of(l), l.peak} <
                 std::pair{price_of(r), r.peak};
        });
    for (std::size_t n = 0; n < pool_.size() && !budget_->spent(); ++n) {
      Plan base = *lowest;
      if (!choice_.empty()) {
        const Evaluation value = evaluate(problem_, choice_);
        base = {choice_, value.cost, value.peak};
      }
      combine(base, pool_[pool_.size() - 1 - n]);
    }
    polish();
    if (value_ == before || budget_->spent()) break;
  }
  return value_ < start;
}

}  // namespace shardwright::solver::internal
