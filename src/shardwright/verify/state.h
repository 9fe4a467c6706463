// Buffers that the step changes: what depends on what such a buffer held gives
// other results when it runs a second time, and a copy of one grows old.
#pragma once

#include "shardwright/verify/program.h"

namespace shardwright::verify::internal {

// No recomputed region depends on one, and no copy of one is read after a
// change. The program must be complete.
void check_state(const Program& program, Findings& findings);

}  // namespace shardwright::verify::internal
