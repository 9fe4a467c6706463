// Finds a good choice by fixing nodes a few at a time, the clearest first, and
// raising the bound again after each step.
#pragma once

#include <cstdint>

#include "shardwright/solver/branch.h"
#include "shardwright/solver/recombine.h"
#include "shardwright/solver/relaxation.h"

namespace shardwright::solver::internal {

// From the prices and plans of `root`; every plan met is offered to `primal`.
// Different seeds take different ways. True when the best choice improved.
bool dive(Relaxation* relaxation, Primal* primal, const Allowed& allowed,
          const SearchResult& root, const SearchLimits& limits,
          std::uint64_t seed, Budget* budget);

}  // namespace shardwright::solver::internal
