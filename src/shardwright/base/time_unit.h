// The unit in which solvers count time: picoseconds, or a power of 1000 of them
// where a step takes so long that integer sums of picoseconds would overflow
// (clusters given in units of their own, one FLOP a second).
#pragma once

#include <cmath>
#include <cstdint>

#include "shardwright/base/units.h"

namespace shardwright {

struct TimeUnit {
  std::int64_t picoseconds = 1;

  // Requires a time of at most 9e18 units.
  [[nodiscard]] std::int64_t count(Seconds time) const {
    return std::llround(time.value * 1e12 / static_cast<double>(picoseconds));
  }
  [[nodiscard]] Seconds time(std::int64_t units) const {
    return Seconds(static_cast<double>(units) * 1e-12 *
                   static_cast<double>(picoseconds));
  }
};

}  // namespace shardwright
