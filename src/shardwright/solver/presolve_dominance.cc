#include "shardwright/solver/presolve_dominance.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace shardwright::solver::internal {
namespace {

using Bits = std::vector<std::uint64_t>;

// Choices that agree in all orders: only the cheapest (the first of them)
// stays. Returns those that stay, by cost.
List cheapest_by_cost(const std::vector<std::int64_t>& cost,
                      const std::vector<OrderPtr>& orders) {
  std::vector<std::uint64_t> hashes(cost.size(), 1);
  for (const OrderPtr& order : orders) {
    for (std::size_t k = 0; k < cost.size(); ++k) {
      hashes[k] =
          mix(hashes[k], static_cast<std::uint64_t>(order->class_of[k]));
    }
  }
  List cheapest;
  const List group = number_equal(
      hashes,
      [&](std::int32_t k, std::int32_t l) {
        return std::all_of(orders.begin(), orders.end(), [&](const auto& o) {
          return o->class_of[k] == o->class_of[l];
        });
      },
      &cheapest);
  for (std::size_t k = 0; k < cost.size(); ++k) {
    std::int32_t& best = cheapest[group[k]];
    if (cost[k] < cost[best]) best = static_cast<std::int32_t>(k);
  }
  std::sort(cheapest.begin(), cheapest.end());
  std::stable_sort(cheapest.begin(), cheapest.end(),
                   [&](auto k, auto l) { return cost[k] < cost[l]; });
  return cheapest;
}

// Per class the places (in `by_cost`) of the choices in it or in classes below
// it: count rows of `words` words.
Bits nowhere_above(const Order& order, const List& by_cost, std::size_t words) {
  Bits members(words * order.count, 0);
  for (std::size_t n = 0; n < by_cost.size(); ++n) {
    members[order.class_of[by_cost[n]] * words + n / 64] |= 1ULL << (n % 64);
  }
  Bits out = members;
  for (std::int32_t j = 0; j < order.count; ++j) {
    const std::uint64_t* below = order.below.data() + j * order.words();
    std::uint64_t* set = out.data() + j * words;
    for (std::size_t word = 0; word < order.words(); ++word) {
      for (std::uint64_t left = below[word]; left != 0; left &= left - 1) {
        const std::size_t i = word * 64 + std::countr_zero(left);
        const std::uint64_t* add = members.data() + i * words;
        for (std::size_t w = 0; w < words; ++w) set[w] |= add[w];
      }
    }
  }
  return out;
}

}  // namespace

std::optional<List> undominated_choices(const std::vector<std::int64_t>& cost,
                                        const std::vector<OrderPtr>& orders,
                                        Budget* budget) {
  const List by_cost = cheapest_by_cost(cost, orders);
  const std::size_t words = (by_cost.size() + 63) / 64;
  std::vector<Bits> sets;
  sets.reserve(orders.size());
  for (const OrderPtr& order : orders) {
    sets.push_back(nowhere_above(*order, by_cost, words));
  }
  List kept;
  std::vector<const std::uint64_t*> mine(orders.size());
  std::size_t dearer = 0;  // the first place with a cost above n's
  // No two left agree in everything, so dominance is a strict order: whether or
  // not the dominating choice falls itself, one that stays dominates as well.
  for (std::size_t n = 0; n < by_cost.size(); ++n) {
    const std::int32_t l = by_cost[n];
    while (dearer < by_cost.size() && cost[by_cost[dearer]] <= cost[l]) {
      ++dearer;
    }
    for (std::size_t o = 0; o < orders.size(); ++o) {
      mine[o] = sets[o].data() + orders[o]->class_of[l] * words;
    }
    bool dominated = false;
    for (std::size_t w = 0; w * 64 < dearer && !dominated; ++w) {
      std::uint64_t common = ~0ULL;
      if (dearer - w * 64 < 64) common = (1ULL << (dearer - w * 64)) - 1;
      if (w == n / 64) common &= ~(1ULL << (n % 64));
      for (const std::uint64_t* set : mine) common &= set[w];
      dominated = common != 0;
    }
    if (!dominated) kept.push_back(l);
  }
  std::int64_t work = static_cast<std::int64_t>(by_cost.size() * (words + 8));
  budget->charge(work * static_cast<std::int64_t>(orders.size()));
  if (kept.size() == cost.size()) return std::nullopt;
  std::sort(kept.begin(), kept.end());
  return kept;
}

std::optional<List> best_replies(const Shape& leaf, const EdgeTable& table) {
  auto memory_at_most = [&](std::int32_t k, std::int32_t l) {
    const std::int64_t* left = leaf.bytes_of(k);
    const std::int64_t* right = leaf.bytes_of(l);
    for (std::int32_t s = 0; s < leaf.num_segments; ++s) {
      if (left[s] > right[s]) return false;
    }
    return true;
  };
  List reply_of_row;
  std::vector<std::int64_t> cost(leaf.cost.size());
  for (std::int32_t r = 0; r < table.num_row_classes; ++r) {
    const std::int64_t* row =
        table.cost.data() + std::int64_t{r} * table.num_col_classes;
    std::int32_t best = -1;
    for (std::int32_t l = 0; l < leaf.num_choices(); ++l) {
      const std::int64_t pair = row[table.col_class[l]];
      cost[l] = pair >= kInfinite ? kInfinite : pair + leaf.cost[l];
      if (pair >= kInfinite) continue;
      if (best < 0 || cost[l] < cost[best] ||
          (cost[l] == cost[best] && memory_at_most(l, best))) {
        best = l;
      }
    }
    if (best < 0) return std::nullopt;
    for (std::int32_t l = 0; l < leaf.num_choices(); ++l) {
      if (cost[l] < kInfinite && !memory_at_most(best, l)) return std::nullopt;
    }
    reply_of_row.push_back(best);
  }
  List out;
  for (const std::int32_t r : table.row_class) out.push_back(reply_of_row[r]);
  return out;
}

}  // namespace shardwright::solver::internal
