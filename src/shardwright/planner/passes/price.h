// Prices of conversions and the small arithmetic every node pass shares.
#pragma once

#include <cstdint>
#include <vector>

#include "shardwright/planner/model.h"
#include "shardwright/solver/choice_problem.h"

namespace shardwright::planner {

// A conversion between two ports of a value: forward A -> B, backward from
// the gradient B's readers give to the one A's producer takes.
struct PortConversion {
  bool possible = false;
  const sharding::Conversion* forward = nullptr;
  const sharding::Conversion* backward = nullptr;  // nullptr: no gradient
  Picoseconds forward_time, backward_time;
  std::int64_t forward_temporary = 0;  // beyond source and result
  std::int64_t backward_temporary = 0;

  [[nodiscard]] bool forward_identity() const {
    return forward == nullptr || forward->steps.empty();
  }
  [[nodiscard]] bool backward_identity() const {
    return backward == nullptr || backward->steps.empty();
  }
};

PortConversion convert_port(const Model& model, const ir::Value& value,
                            const sharding::Port& from,
                            const sharding::Port& to);

// Local bytes of the value's gradient at a port.
std::int64_t gradient_bytes(const Model& model, const ir::Value& value,
                            const sharding::Port& port);

// Appends the closed interval [first, last] unless it is empty.
void add_interval(std::vector<solver::MemoryInterval>& out, std::int32_t first,
                  std::int32_t last, std::int64_t bytes);

// True when the slot is run again by a recompute of its region (a recompute
// stops after the last op that saves a tensor).
bool runs_again(const Model& model, std::int32_t slot);

sharding::Port replicated(const Model& model);

}  // namespace shardwright::planner
