// Where a relaxation cheats, and how to part the choices of a node so that it
// cannot on either side.
#pragma once

#include <cstdint>
#include <vector>

#include "shardwright/solver/relaxation.h"

namespace shardwright::solver::internal {

struct Split {
  std::int32_t node = -1;          // -1: there is nothing to split
  std::vector<std::int32_t> left;  // flat choices, both sides have some
  std::vector<std::int32_t> right;
};

// The node whose part of the mixture varies most in price-weighted bytes ("half
// small and slow, half large and fast"), split at the mean: the mixture is cut
// off on both sides, and both sides lose about half of the cheating.
Split split_by_memory(const Relaxation& relaxation,
                      const Relaxation::Prices& prices,
                      const std::vector<Relaxation::Weighted>& mixture,
                      const Allowed& allowed);

// Failing that: the most even node of the mixture, its largest part against the
// rest; failing that any node with choices left.
Split split_anywhere(const Relaxation& relaxation,
                     const std::vector<Relaxation::Weighted>& mixture,
                     const Allowed& allowed);

}  // namespace shardwright::solver::internal
