#include "shardwright/solver/split.h"

#include <map>

namespace shardwright::solver::internal {
namespace {

// The allowed choices of a node, parted by a predicate.
template <class GoesLeft>
Split part(const FlatIndex& index, const Allowed& allowed, std::int32_t node,
           GoesLeft goes_left) {
  Split split;
  split.node = node;
  for (std::int32_t f = index.first[node]; f < index.first[node + 1]; ++f) {
    if (allowed[f]) (goes_left(f) ? split.left : split.right).push_back(f);
  }
  return split;
}

Split split_off(const FlatIndex& index, const Allowed& allowed,
                std::int32_t node, std::int32_t flat) {
  return part(index, allowed, node, [&](std::int32_t f) { return f == flat; });
}

bool has_choice_left(const FlatIndex& index, const Allowed& allowed,
                     std::int32_t node) {
  std::int32_t count = 0;
  for (std::int32_t f = index.first[node]; f < index.first[node + 1]; ++f) {
    count += allowed[f];
  }
  return count > 1;
}

// The parts of the mixture by flat choice of the node; empty when the node has
// no choice left to make.
std::map<std::int32_t, double> parts_of(
    const Relaxation& relaxation,
    const std::vector<Relaxation::Weighted>& mixture, const Allowed& allowed,
    std::int32_t node) {
  const FlatIndex& index = relaxation.index();
  std::map<std::int32_t, double> out;
  if (!has_choice_left(index, allowed, node)) return out;
  for (const auto& [plan, share] : mixture) {
    out[index.first[node] + relaxation.plan(plan)[node]] += share;
  }
  return out;
}

}  // namespace

Split split_by_memory(const Relaxation& relaxation,
                      const Relaxation::Prices& prices,
                      const std::vector<Relaxation::Weighted>& mixture,
                      const Allowed& allowed) {
  const FlatIndex& index = relaxation.index();
  const std::vector<double> weight = relaxation.weights(prices);
  std::int32_t best = -1;
  double best_variance = 0;
  double best_mean = 0;
  for (std::int32_t i = 0; i < index.num_nodes(); ++i) {
    const auto share = parts_of(relaxation, mixture, allowed, i);
    if (share.size() < 2) continue;
    double mean = 0;
    double square = 0;
    for (const auto& [flat, size] : share) {
      mean += size * weight[flat];
      square += size * weight[flat] * weight[flat];
    }
    const double variance = square - mean * mean;
    if (variance > best_variance * (1 + 1e-9) && variance > 1e-12 * square) {
      best = i;
      best_variance = variance;
      best_mean = mean;
    }
  }
  if (best < 0) return {};
  Split split = part(index, allowed, best,
                     [&](std::int32_t f) { return weight[f] <= best_mean; });
  if (split.left.empty() || split.right.empty()) return {};
  return split;
}

Split split_anywhere(const Relaxation& relaxation,
                     const std::vector<Relaxation::Weighted>& mixture,
                     const Allowed& allowed) {
  const FlatIndex& index = relaxation.index();
  std::int32_t mixed = -1;
  std::int32_t mixed_flat = -1;
  double most_even = 0;
  std::int32_t any = -1;
  for (std::int32_t i = 0; i < index.num_nodes(); ++i) {
    const auto share = parts_of(relaxation, mixture, allowed, i);
    if (any < 0 && has_choice_left(index, allowed, i)) any = i;
    if (share.empty()) continue;
    std::int32_t largest = share.begin()->first;
    for (const auto& [flat, size] : share) {
      if (size > share.at(largest)) largest = flat;
    }
    const double even = 1 - share.at(largest);
    if (share.size() < 2 || even <= most_even || !allowed[largest]) continue;
    mixed = i;
    mixed_flat = largest;
    most_even = even;
  }
  if (mixed >= 0) return split_off(index, allowed, mixed, mixed_flat);
  if (any < 0) return {};
  std::int32_t flat = index.first[any];
  while (!allowed[flat]) ++flat;
  if (!mixture.empty()) {
    const std::int32_t chosen =
        index.first[any] + relaxation.plan(mixture[0].plan)[any];
    if (allowed[chosen]) flat = chosen;
  }
  return split_off(index, allowed, any, flat);
}

}  // namespace shardwright::solver::internal
