// State: buffers that a training step changes (running statistics, counters),
// and what depends on their contents.
//
// A region is run again after the whole forward pass, when its buffers hold the
// new state. It may be run again only if nothing it computes depends on them:
// batch normalisation that normalises with the batch's own statistics may, a
// moving average that is read may not.
#pragma once

#include <vector>

namespace shardwright::planner {

struct Model;

struct ChangedState {
  // Per value: it is a buffer that the step changes, or a view of one. A copy
  // would hold the old contents: such a value is read as it is stored.
  std::vector<bool> holds;
  // Per op: its results depend on the contents of such a value.
  std::vector<bool> seen_by;
};

// All buffers that an op with an effect takes count as changed by it.
// Complexity: linear in the graph.
ChangedState find_changed_state(const Model& model);

}  // namespace shardwright::planner
