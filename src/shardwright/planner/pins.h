// Pins: what the user forces, as filters on choices.
#pragma once

#include <vector>

#include "shardwright/planner/model.h"

namespace shardwright::planner {

// Fates (recompute or not) the pins leave for ops of a recomputable region;
// {false} for region -1.
Result<std::vector<bool>> allowed_fates(const Model& model,
                                        std::int32_t region);

// True unless a placement pin matches the op and its result has another spec.
Result<bool> placement_allowed(const Model& model, OpId op,
                               const strategy::Strategy& strategy);

// True when a placement pin speaks of the op.
bool placement_pinned(const Model& model, OpId op);

// True unless a storage pin matches the parameter and asks for another spec.
Result<bool> storage_allowed(const Model& model, const ir::Value& parameter,
                             const sharding::Port& storage);

// Every pin matches something and its spec can be read; else
// kInvalidArgument naming it.
Result<bool> check_pins(const Model& model);

}  // namespace shardwright::planner
