// What a choice costs and needs, added up from the problem as it was stated.
// Written on its own: no solver code is used here, so that a mistake in one is
// seen by the other. Sums are 128 bits wide.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "shardwright/solver/choice_problem.h"

namespace shardwright::solver {

struct Evaluation {
  std::int64_t cost = 0;           // kInfinite when the choice is forbidden
  std::int64_t peak = 0;           // bytes; 0 on an empty axis
  std::int32_t peak_position = 0;  // the first one

  bool feasible(std::optional<std::int64_t> limit) const {
    return cost < kInfinite && (!limit || peak <= *limit);
  }
};

// O(nodes + edges + intervals + positions). The problem must be valid and
// `choice` must hold one index per node, in range: SW_CHECK.
Evaluation evaluate(const ChoiceProblem& problem,
                    std::span<const std::int32_t> choice);

// Bytes alive at every position.
std::vector<std::int64_t> memory_profile(const ChoiceProblem& problem,
                                         std::span<const std::int32_t> choice);

}  // namespace shardwright::solver
