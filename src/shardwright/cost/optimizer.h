// What an optimizer keeps and allocates per parameter, in closed form.
//
// Source: the update loops of torch.optim; checked against bytes really
// allocated in a CPU step (python/tests). All in bytes of the local shard.
#pragma once

#include <cstdint>
#include <string>

#include "shardwright/base/result.h"

namespace shardwright::cost {

struct Optimizer {
  std::string name;
  // Persistent state, as multiples of the parameter's bytes (fp32 states of
  // fp32 parameters), plus a constant per parameter (the step counter).
  std::int64_t state_copies = 0;
  std::int64_t state_constant = 0;
  // While parameter i is updated in the for-loop form, `own_copies` tensors of
  // its size are alive, and `previous_copies` of parameter i-1's.
  std::int64_t own_copies = 0;
  std::int64_t previous_copies = 0;
  // Scalars of one update (step counts, bias corrections), at most.
  std::int64_t scalar_bytes = 0;
  // Memory traffic of the update in parameter-sized reads and writes.
  double traffic_copies = 0;
};

// Scalars a training loop keeps besides the program's tensors (the loss as a
// number, counters): what is held aside for them.
inline constexpr std::int64_t kLoopScalarBytes = 64;

// "sgd", "sgd-momentum", "adam", "adamw". Error kInvalidArgument otherwise.
Result<Optimizer> optimizer_of(const std::string& name);

}  // namespace shardwright::cost
