// Dominance. Choice k of a node makes choice l superfluous when it costs no
// more, needs no more bytes at any position, and is no dearer towards any
// choice of any neighbour. Swapping l for k then keeps every answer as good.
//
// Choices are compared by classes: "row i is no dearer than row j" is worked
// out once per pair of rows of an edge, and gives for every row the set of
// choices (a bit each) that are no dearer there. The candidates of a choice are
// the common bits of its rows, of the cheaper choices among them only memory is
// left to compare. Choices that agree in all of that are thinned to the
// cheapest before pairs are looked at.
#include <algorithm>
#include <bit>
#include <map>

#include "shardwright/solver/presolve_rules.h"

namespace shardwright::solver::internal {
namespace {

using Bits = std::vector<std::uint64_t>;

void set_bit(Bits* bits, std::size_t n) { (*bits)[n / 64] |= 1ULL << (n % 64); }

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

  bool at_most(std::int32_t k, std::int32_t l) const {
    const auto& left = bytes[number[k]];
    const auto& right = bytes[number[l]];
    for (std::size_t n = 0; n < left.size(); ++n) {
      if (left[n] > right[n]) return false;
    }
    return true;
  }
};

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

// Choices that agree in memory and at every edge: only the cheapest stays.
void keep_cheapest(const Work& work, std::int32_t id, const Profiles& profiles,
                   std::vector<bool>* keep) {
  const WorkNode& node = work.nodes[id];
  std::map<std::vector<std::int32_t>, std::int32_t> cheapest;
  for (std::int32_t k = 0; k < static_cast<std::int32_t>(keep->size()); ++k) {
    std::vector<std::int32_t> numbers = {profiles.number[k]};
    for (const std::int32_t e : node.edges) {
      const WorkEdge& edge = work.edges[e];
      numbers.push_back(edge.a == id ? edge.row_class[k] : edge.col_class[k]);
    }
    const auto [found, is_new] = cheapest.try_emplace(std::move(numbers), k);
    if (is_new) continue;
    const bool better = node.choices[k].cost < node.choices[found->second].cost;
    (*keep)[better ? found->second : k] = false;
    if (better) found->second = k;
  }
}

// Per class of the edge at this node, the places in `order` of the choices that
// are no dearer towards any partner.
std::vector<Bits> no_dearer(const WorkEdge& edge, bool rows,
                            const std::vector<std::int32_t>& order) {
  const auto& class_of = rows ? edge.row_class : edge.col_class;
  const std::int32_t count = rows ? edge.num_rows : edge.num_cols;
  const std::size_t words = (order.size() + 63) / 64;
  std::vector<Bits> members(count, Bits(words, 0));
  for (std::size_t n = 0; n < order.size(); ++n) {
    set_bit(&members[class_of[order[n]]], n);
  }
  std::vector<Bits> out = members;
  for (std::int32_t j = 0; j < count; ++j) {
    for (std::int32_t i = 0; i < count; ++i) {
      if (i == j || !line_at_most(edge, rows, i, j)) continue;
      for (std::size_t w = 0; w < words; ++w) out[j][w] |= members[i][w];
    }
  }
  return out;
}

}  // namespace

bool drop_dominated(Work* work, std::int32_t id, Budget* budget) {
  const WorkNode& node = work->nodes[id];
  const auto count = static_cast<std::int32_t>(node.choices.size());
  if (count < 2) return false;
  const Profiles profiles(node);
  std::vector<bool> keep(count, true);
  keep_cheapest(*work, id, profiles, &keep);
  std::vector<std::int32_t> order;
  for (std::int32_t k = 0; k < count; ++k) {
    if (keep[k]) order.push_back(k);
  }
  std::stable_sort(order.begin(), order.end(), [&](auto left, auto right) {
    return node.choices[left].cost < node.choices[right].cost;
  });
  std::vector<std::vector<Bits>> sets;  // per edge and class
  for (const std::int32_t e : node.edges) {
    const WorkEdge& edge = work->edges[e];
    sets.push_back(no_dearer(edge, edge.a == id, order));
  }
  const std::size_t words = (order.size() + 63) / 64;
  Bits candidates(words);
  // No two left agree in everything, so dominance is a strict order and a
  // choice that falls to one that falls itself also falls to one that stays.
  for (std::size_t n = 0; n < order.size(); ++n) {
    const std::int32_t l = order[n];
    std::fill(candidates.begin(), candidates.end(), ~0ULL);
    for (std::size_t e = 0; e < node.edges.size(); ++e) {
      const WorkEdge& edge = work->edges[node.edges[e]];
      const std::int32_t at =
          edge.a == id ? edge.row_class[l] : edge.col_class[l];
      const Bits& set = sets[e][at];
      for (std::size_t w = 0; w < words; ++w) candidates[w] &= set[w];
    }
    for (std::size_t w = 0; w < words && keep[l]; ++w) {
      for (std::uint64_t left = candidates[w]; left != 0; left &= left - 1) {
        const std::size_t at = w * 64 + std::countr_zero(left);
        if (at >= order.size()) break;
        const std::int32_t k = order[at];
        if (node.choices[k].cost > node.choices[l].cost) break;
        if (k == l || !keep[k] || !profiles.at_most(k, l)) continue;
        keep[l] = false;
        break;
      }
    }
  }
  budget->charge(static_cast<std::int64_t>(order.size() * (words + 8)) * 2);
  const auto removed = std::count(keep.begin(), keep.end(), false);
  if (removed == 0) return false;
  work->removed_by_dominance += removed;
  filter_choices(work, id, keep);
  return true;
}

}  // namespace shardwright::solver::internal
