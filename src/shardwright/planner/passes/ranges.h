// Sets of positions as sorted, disjoint, half-open ranges.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "shardwright/solver/choice_problem.h"

namespace shardwright::planner {

class Ranges {
 public:
  Ranges() = default;

  // Adds the closed interval [first, last]; nothing when it is empty.
  void add(std::int32_t first, std::int32_t last);
  // The positions of this set that are not in `other`.
  [[nodiscard]] Ranges minus(const Ranges& other) const;

  // Half-open, ascending.
  [[nodiscard]] const std::vector<std::pair<std::int32_t, std::int32_t>>&
  items() const {
    return items_;
  }
  bool operator==(const Ranges&) const = default;

 private:
  std::vector<std::pair<std::int32_t, std::int32_t>> items_;
};

// Appends `bytes` over every range; nothing for no bytes.
void add_bytes(std::vector<solver::MemoryInterval>& out, const Ranges& ranges,
               std::int64_t bytes);

}  // namespace shardwright::planner
