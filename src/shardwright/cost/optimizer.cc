#include "shardwright/cost/optimizer.h"

#include <fmt/format.h>

#include <vector>

namespace shardwright::cost {

Result<Optimizer> optimizer_of(const std::string& name) {
  // Adam's denominator: sqrt and its quotient are alive together, and the
  // previous parameter's quotient is still bound to its name.
  static const std::vector<Optimizer> kTable = {
      {"sgd", 0, 0, 0, 0, 64, 3},
      {"sgd-momentum", 1, 0, 0, 0, 64, 5},
      {"adam", 2, 4, 2, 1, 64, 9},
      {"adamw", 2, 4, 2, 1, 64, 9},
  };
  for (const Optimizer& entry : kTable) {
    if (entry.name == name) return entry;
  }
  return make_error(
      ErrorCode::kInvalidArgument,
      fmt::format("[cost] unknown optimizer '{}'. Try: one of sgd, "
                  "sgd-momentum, adam, adamw.",
                  name));
}

}  // namespace shardwright::cost
