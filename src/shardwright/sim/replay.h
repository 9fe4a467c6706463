// Replay: the exact judge of a plan's memory.
//
// Walks one training step of the plan's program as an interpreter would run
// it: storages with reference counts, released when the generated code drops
// its variables, when autograd drops what it saved, and when gradients have
// been handed on. No intervals and no solver numbers are involved; records are
// evaluated at the local sizes each step names.
//
// Order of events (what the engine does): forward steps in program order; a
// recomputed region keeps only its inputs; backward in reverse order; a region
// is run again just before the first of its steps that needs a saved tensor, up
// to and including the last step that saves one; then the optimizer, one
// parameter at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shardwright/base/result.h"
#include "shardwright/cost/optimizer.h"
#include "shardwright/ir/graph.h"
#include "shardwright/plan/plan.h"

namespace shardwright::sim {

struct MemoryPoint {
  std::string at;          // "forward of <op>", "recompute of", ...
  std::int64_t level = 0;  // bytes at the end of it
  std::int64_t peak = 0;   // highest inside it
};

struct MemoryTimeline {
  std::vector<MemoryPoint> points;
  std::int64_t peak_bytes = 0;
  std::string peak_at;
  std::int64_t parameters_bytes = 0;
  std::int64_t gradients_bytes = 0;  // all of them, at the optimizer step
  std::int64_t optimizer_bytes = 0;
  std::int64_t inputs_bytes = 0;  // batch, buffers, constants
};

// Errors: kInvalidPlan (a step names an op or buffer that is not there),
// kInvalidGraph (a damaged record).
Result<MemoryTimeline> replay(const ir::Graph& graph, const plan::Plan& plan);

// Collectives one step issues at coordinate 0: conversions forward, backward,
// again in recomputed regions and regathered, and those inside ops. Local
// changes (slice, make_partial) are none. Sorted by kind, axis, bytes.
Result<std::vector<plan::CollectiveCount>> count_collectives(
    const ir::Graph& graph, const plan::Plan& plan);

}  // namespace shardwright::sim
