// The life of one value on the time axis, split between two owners.
//
// An op pays for what exists whatever its readers do, its *core*: the result
// from the op to the copy's conversion slot (and again in a recompute, and to
// its own backward if it saves the result), and the gradient it takes from
// that slot's backward on. The value node pays for everything else. So the
// value node need not know in which layout the op left the value, unless some
// readers take that layout and others a converted copy.
#pragma once

#include <cstdint>
#include <vector>

#include "shardwright/planner/lives.h"
#include "shardwright/planner/model.h"
#include "shardwright/planner/passes/ranges.h"

namespace shardwright::planner {

// Everything about one copy of a value that its choices share.
struct ValueContext {
  const Model* model = nullptr;
  ValueId id;
  std::vector<Reader> readers;  // of this copy
  bool several = false;         // the value has further copies
  const ir::Value* value = nullptr;
  Life produced;            // of the value as produced
  Life converted;           // of its converted copy
  bool owns_bytes = false;  // a new storage, not a view or a source
  bool is_loss = false;
  bool is_output = false;  // put out as produced
  bool has_gradient = false;
  std::int32_t convert_slot = -1;   // -1: never read
  std::int32_t last_reader = -1;    // slot; the conversion's if none
  std::int32_t last_of_value = -1;  // last reader of any copy
  bool gradient_moves_on = false;   // the producer's backward passes it along

  // The copy is made in another region than the value.
  [[nodiscard]] bool crosses() const {
    return produced.home_region != converted.home_region;
  }
  [[nodiscard]] std::int32_t backward(std::int32_t slot) const {
    return model->timeline.backward[static_cast<std::size_t>(slot)];
  }
};

// `copy`: into Timeline::copies.
ValueContext context_of(const Model& model, std::int32_t copy);
// As its producer sees it; for a value that nobody reads, too.
ValueContext context_of_result(const Model& model, ValueId id);

// What the producer owns of its result, and of its gradient. `recompute`: the
// producer runs again; `saves`: it keeps its own result for its backward.
Ranges core(const ValueContext& c, bool recompute, bool saves);
Ranges gradient_core(const ValueContext& c);

// Positions at which a copy exists that must serve `need`. `last_forward`: slot
// of the last forward reader, `last_internal`: the last one that runs again
// with it (-1: none).
Ranges copy_ranges(const ValueContext& c, const Life& life, const Need& need,
                   bool recompute, std::int32_t last_forward,
                   std::int32_t last_internal);

// The needs a copy may be asked to serve. `fixed`: only the largest (storage
// that is not owned costs nothing).
std::vector<Need> needs_allowed(const Life& life, bool fixed);

}  // namespace shardwright::planner
