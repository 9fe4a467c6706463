// Dominance. Choice k of a node makes choice l superfluous when it costs no
// more, needs no more bytes at any position, and is no dearer towards any
// choice of any neighbour. Swapping l for k then keeps every answer as good.
//
// Choices are compared by classes: equal memory profiles share a number, and
// so do equal rows of an edge; "no more than" between two numbers is worked
// out once. Choices that agree in all numbers are thinned to the cheapest
// before pairs are looked at.
#include <algorithm>
#include <map>

#include "shardwright/solver/presolve_rules.h"

namespace shardwright::solver::internal {
namespace {

// le(i, j) for numbered things, worked out when first asked.
class Order {
 public:
  Order(std::int32_t count) : count_(count), known_(count * count, 0) {}

  template <typename Compare>
  bool at_most(std::int32_t i, std::int32_t j, Compare&& compare) {
    if (i == j) return true;
    char& slot = known_[static_cast<std::size_t>(i) * count_ + j];
    if (slot == 0) slot = compare() ? 1 : 2;
    return slot == 1;
  }

 private:
  std::int32_t count_;
  std::vector<char> known_;
};

struct Profiles {
  std::vector<std::int32_t> number;              // per choice
  std::vector<std::vector<std::int64_t>> bytes;  // per number and segment

  explicit Profiles(const WorkNode& node) {
    std::vector<std::int32_t> ends;
    for (const Choice& choice : node.choices) {
      for (const MemoryInterval& item : choice.intervals) {
        ends.push_back(item.lo);
        ends.push_back(item.hi);
      }
    }
    std::sort(ends.begin(), ends.end());
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    std::map<std::vector<std::int64_t>, std::int32_t> seen;
    for (const Choice& choice : node.choices) {
      std::vector<std::int64_t> line(ends.size(), 0);
      for (const MemoryInterval& item : choice.intervals) {
        auto at = std::lower_bound(ends.begin(), ends.end(), item.lo);
        for (; *at < item.hi; ++at) line[at - ends.begin()] += item.bytes;
      }
      const auto [found, is_new] =
          seen.try_emplace(line, static_cast<std::int32_t>(seen.size()));
      number.push_back(found->second);
      if (is_new) bytes.push_back(std::move(line));
    }
  }
};

bool all_at_most(const std::vector<std::int64_t>& left,
                 const std::vector<std::int64_t>& right) {
  for (std::size_t n = 0; n < left.size(); ++n) {
    if (left[n] > right[n]) return false;
  }
  return true;
}

bool line_at_most(const WorkEdge& edge, bool rows, std::int32_t i,
                  std::int32_t j) {
  const std::int32_t count = rows ? edge.num_cols : edge.num_rows;
  for (std::int32_t c = 0; c < count; ++c) {
    const std::int64_t left = rows ? edge.at(i, c) : edge.at(c, i);
    const std::int64_t right = rows ? edge.at(j, c) : edge.at(c, j);
    if (left > right) return false;
  }
  return true;
}

}  // namespace

bool drop_dominated(Work* work, std::int32_t id, Budget* budget) {
  const WorkNode& node = work->nodes[id];
  const auto count = static_cast<std::int32_t>(node.choices.size());
  if (count < 2) return false;
  const Profiles profiles(node);
  // Column 0: the memory number; then one class per edge.
  std::vector<std::vector<std::int32_t>> numbers(count);
  std::vector<Order> orders;
  orders.emplace_back(static_cast<std::int32_t>(profiles.bytes.size()));
  for (std::int32_t k = 0; k < count; ++k) {
    numbers[k].push_back(profiles.number[k]);
  }
  for (const std::int32_t e : node.edges) {
    const WorkEdge& edge = work->edges[e];
    const bool rows = edge.a == id;
    orders.emplace_back(rows ? edge.num_rows : edge.num_cols);
    for (std::int32_t k = 0; k < count; ++k) {
      numbers[k].push_back(rows ? edge.row_class[k] : edge.col_class[k]);
    }
  }
  std::vector<bool> keep(count, true);
  std::map<std::vector<std::int32_t>, std::int32_t> cheapest;
  for (std::int32_t k = 0; k < count; ++k) {
    const auto [found, is_new] = cheapest.try_emplace(numbers[k], k);
    if (is_new) continue;
    if (node.choices[k].cost < node.choices[found->second].cost) {
      keep[found->second] = false;
      found->second = k;
    } else {
      keep[k] = false;
    }
  }
  std::vector<std::int32_t> order;
  for (std::int32_t k = 0; k < count; ++k) {
    if (keep[k]) order.push_back(k);
  }
  std::stable_sort(order.begin(), order.end(), [&](auto left, auto right) {
    return node.choices[left].cost < node.choices[right].cost;
  });
  auto dominates = [&](std::int32_t k, std::int32_t l) {
    for (std::size_t n = 0; n < orders.size(); ++n) {
      const std::int32_t i = numbers[k][n];
      const std::int32_t j = numbers[l][n];
      const bool less = orders[n].at_most(i, j, [&] {
        if (n == 0) return all_at_most(profiles.bytes[i], profiles.bytes[j]);
        const WorkEdge& edge = work->edges[node.edges[n - 1]];
        return line_at_most(edge, edge.a == id, i, j);
      });
      if (!less) return false;
    }
    return true;
  };
  // No two left agree in all numbers, so dominance is a strict order and a
  // choice that falls to one that falls itself also falls to one that stays.
  for (const std::int32_t l : order) {
    for (const std::int32_t k : order) {
      if (node.choices[k].cost > node.choices[l].cost) break;
      if (k == l || !keep[k] || !dominates(k, l)) continue;
      keep[l] = false;
      break;
    }
  }
  budget->charge(static_cast<std::int64_t>(order.size() * order.size()) * 4);
  const auto removed = std::count(keep.begin(), keep.end(), false);
  if (removed == 0) return false;
  work->removed_by_dominance += removed;
  filter_choices(work, id, keep);
  return true;
}

}  // namespace shardwright::solver::internal
