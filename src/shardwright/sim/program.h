// The plan's program resolved against the graph: buffers as numbers, records
// at local sizes, who needs what in backward. Shared by replay and counting.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "shardwright/base/result.h"
#include "shardwright/cost/record.h"
#include "shardwright/ir/graph.h"
#include "shardwright/plan/plan.h"

namespace shardwright::sim::internal {

// One collective of a conversion: bytes of its result, and what it allocates
// beside input and result while it runs.
struct CollectiveMemory {
  std::int64_t bytes = 0;
  std::int64_t transient = 0;
};

struct ResolvedStep {
  const plan::Step* step = nullptr;
  const ir::Op* op = nullptr;                  // null: a conversion
  std::shared_ptr<const cost::Record> record;  // of the variant
  const cost::Record* local = nullptr;
  std::vector<std::int32_t> in, out;
  bool saves = false;                               // packs at least one tensor
  std::vector<CollectiveMemory> forward, backward;  // of a conversion
};

struct Buffer {
  std::string name;
  ValueId value;
  std::int64_t bytes = 0;  // local, coordinate 0
  std::int64_t gradient_bytes = 0;
  bool differentiable = false;
  std::int32_t producer = -1;     // step, -1: there from the start
  std::int32_t last_reader = -1;  // step, -1: never read
  std::int32_t recipe = -1;       // of the copy it lies in, -1: none
  bool views_copy = false;        // ... through an op's view
};

// How a copy that is gathered again was made: conversions one after the other,
// the first from a buffer that is there all the time. One recipe per storage:
// identity conversions and views of the copy share it.
struct Recipe {
  std::vector<std::int32_t> conversions;  // steps
};

struct Program {
  std::vector<ResolvedStep> steps;
  std::vector<Buffer> buffers;
  std::vector<Recipe> recipes;
  std::map<std::string, std::int32_t> buffer_of;
  std::vector<bool> gets_gradient;       // per buffer: on a path from the loss
  std::vector<std::int32_t> last_saver;  // per region id, -1
  std::vector<bool> recomputed;          // per region id
  std::int32_t loss = -1;
};

// Errors: kInvalidPlan, kInvalidGraph.
Result<Program> resolve(const ir::Graph& graph, const plan::Plan& plan);

// What the step's backward gathers again: the recipes of the operands that its
// autograd node would have saved, each once however often it is saved.
std::vector<std::int32_t> gathered_again(const Program& program,
                                         std::size_t step);

// True when the step is in a region that is recomputed.
bool in_recomputed(const Program& program, std::size_t step);

// True when the step is run again in backward: the region's last saver is the
// last that is.
bool runs_again(const Program& program, std::size_t step);

}  // namespace shardwright::sim::internal
