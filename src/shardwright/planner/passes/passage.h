// Passage: what a value node must know of the way a value takes from its
// producer to the layout its readers take, beyond that layout.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "shardwright/planner/passes/price.h"
#include "shardwright/planner/passes/value_life.h"
#include "shardwright/planner/problem.h"

namespace shardwright::planner {

// What the producer's choice means for its result.
struct ProducerSide {
  sharding::Port port;
  bool recompute = false;
  bool saves = false;  // keeps its own result for its backward
  auto operator<=>(const ProducerSide&) const = default;
};

// The distinct sides of a producer's choices, sorted; for a source the one
// layout sources have.
std::vector<ProducerSide> producer_sides(const ValueContext& c,
                                         const PlanningProblem& problem);
ProducerSide side_of(const ValueContext& c, const OpChoice& choice);

// Layouts a reader can take, sorted.
const std::vector<sharding::Port>& reader_ports(const Model& model,
                                                const Reader& reader);

// Bytes of a converted gradient until it is added to that of other copies.
std::int64_t contribution_of(const ValueContext& c, const ProducerSide& side);

struct PricedPassage {
  Passage passage;
  std::int64_t cost = 0;  // of the conversions, picoseconds
};

// The passage from a producer's side to layout `to` for all readers alike.
// `copy_recompute`: the copy, if one is made, is made again in a recompute of
// its region. Empty: not possible, or not needed (it is the same as another).
std::optional<PricedPassage> passage_of(const ValueContext& c,
                                        const ProducerSide& side,
                                        const sharding::Port& to,
                                        bool copy_recompute);

}  // namespace shardwright::planner
