// Two estimates of the peak of one training step, from lives instead of a
// walk.
//
// Every storage (an op's new one, a conversion's result) lives over one
// interval of positions: forward steps, then for each step from the last to
// the first its backward, the recompute of a region standing just before the
// first backward that needs it, then the optimizer. A position's level is the
// sum of what is alive there plus what the step itself needs for a moment.
//
//   upper   closed lives; everything a step makes and everything it drops is
//           alive together; a gradient that shares a storage with another one
//           keeps it alive; collectives pack and unpack at their worst
//   lower   only what is alive at the same time without doubt: forward, all
//           of it; backward, the higher of a step's beginning and its end
//
// The true peak lies between them; they meet where the peak is in the forward
// pass or the optimizer step.
#pragma once

#include <cstdint>
#include <string>

#include "shardwright/verify/program.h"

namespace shardwright::verify::internal {

struct PeakEstimate {
  std::int64_t lower = 0;
  std::int64_t upper = 0;
  std::string upper_at;
  std::int64_t parameters_bytes = 0;
  std::int64_t optimizer_bytes = 0;
  std::int64_t inputs_bytes = 0;
  std::int64_t gradients_bytes = 0;  // of all trained parameters
};

// Complexity: O(steps + sum of readers). Errors: kInvalidPlan (optimizer).
Result<PeakEstimate> estimate_peak(const Program& program);

// The plan's predictions against the estimates, and the limit.
void check_memory(const Program& program, Report& report, Findings& findings);

}  // namespace shardwright::verify::internal
