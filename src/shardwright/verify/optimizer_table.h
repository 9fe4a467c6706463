// What torch's optimizers keep, allocate and move, per parameter: this layer's
// own reading of their for-loop forms.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace shardwright::verify::internal {

struct OptimizerSizes {
  std::int64_t state_copies = 0;    // parameter-sized tensors kept
  std::int64_t state_constant = 0;  // bytes of the step counter
  std::int64_t least_working = 0;   // parameter-sized, during its update
  std::int64_t most_working = 0;    // ... with the previous parameter's rest
  double traffic = 0;               // parameter-sized reads and writes
};

// SGD reads gradient and parameter and writes the parameter; momentum reads
// and writes its buffer too. Adam reads gradient, parameter and two averages
// and writes three of them, its denominator is one more write and read; the
// denominator's square root and quotient are alive together.
inline std::optional<OptimizerSizes> optimizer_sizes(const std::string& name) {
  if (name == "sgd") return OptimizerSizes{0, 0, 0, 1, 3};
  if (name == "sgd-momentum") return OptimizerSizes{1, 0, 0, 1, 5};
  if (name == "adam" || name == "adamw") return OptimizerSizes{2, 4, 2, 3, 9};
  return std::nullopt;
}

}  // namespace shardwright::verify::internal
