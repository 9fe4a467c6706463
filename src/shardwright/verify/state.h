// Buffers that the step changes, and the steps whose results depend on what
// such a buffer held: these give other results when they run a second time.
#pragma once

#include "shardwright/verify/program.h"

namespace shardwright::verify::internal {

// A recomputed region has no such step. The program must be complete.
void check_state(const Program& program, Findings& findings);

}  // namespace shardwright::verify::internal
