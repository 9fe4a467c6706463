// Timeline: the linear order of steps and the positions of the time axis.
//
// Slots, in order, for op j: one per parameter operand (its use), one per copy
// whose first reader is j (its conversion), then the op. A value has one copy,
// read by all its readers; a value read in more than two regions has one per
// region, so that far-apart blocks do not depend on each other's layouts.
// Positions: forward 0..n-1; then, from the last stretch of slots to the first,
// the stretch's recompute positions (forward order, only for regions) and its
// backward positions (reversed); then one position per parameter for the
// optimizer. Lives are closed. (DESIGN: "time axis".)
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "shardwright/ir/graph.h"
#include "shardwright/planner/regions.h"

namespace shardwright::planner {

struct Slot {
  enum class Kind { kUse, kConvert, kOp };
  Kind kind = Kind::kOp;
  OpId op;        // the op; reader of a use; invalid: graph output
  ValueId value;  // kUse, kConvert
  std::int32_t region = -1;
  std::int32_t copy = -1;  // kConvert: into Timeline::copies
};

// What one group of readers of a value takes, converted at most once.
struct Copy {
  ValueId value;
  std::int32_t slot = -1;
  std::vector<OpId> readers;  // in order; none: put out only
};

struct Timeline {
  std::vector<Slot> slots;
  std::vector<std::int32_t> slot_of_op;
  std::vector<Copy> copies;
  // Per value, in order; none: never read and never put out.
  std::vector<std::vector<std::int32_t>> copies_of_value;
  std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t>
      slot_of_use;  // (op, parameter value) -> slot
  std::vector<std::int32_t> region_of_op;
  // Per slot, -1: never run again (outside regions, or behind the last saver).
  std::vector<std::int32_t> recompute;
  std::vector<std::int32_t> last_saver;  // per region, slot, -1: none saves
  std::vector<std::int32_t> backward;    // per slot
  // Per region: last position of its backward; inputs of a recomputed region
  // are held until then.
  std::vector<std::int32_t> region_end;
  std::int32_t optimizer_begin = 0;
  std::int32_t num_positions = 0;

  [[nodiscard]] std::int32_t forward_of(OpId op) const {
    return slot_of_op[op.index()];
  }
  // The position of the recompute at which a reader of the region at `slot` has
  // run, or the recompute stops. Requires a region with a saver.
  [[nodiscard]] std::int32_t recomputed_by(std::int32_t slot) const;
  // The position at which the recompute of the region at `slot` stops; the
  // region returns what later ops read, so it holds that until then. Requires a
  // region with a saver.
  [[nodiscard]] std::int32_t recompute_end(std::int32_t slot) const;
  // The copy that `op` reads of a value it reads.
  [[nodiscard]] std::int32_t copy_of(ValueId value, OpId op) const;
  [[nodiscard]] std::int32_t backward_of(OpId op) const {
    return backward[static_cast<std::size_t>(slot_of_op[op.index()])];
  }
};

// `saves`: per op, whether it may save a tensor.
Timeline make_timeline(const ir::Graph& graph,
                       const std::vector<RegionRange>& regions,
                       const std::vector<bool>& saves);

}  // namespace shardwright::planner
