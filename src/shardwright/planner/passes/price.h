// Prices of conversions and the small arithmetic every node pass shares.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "shardwright/planner/model.h"
#include "shardwright/solver/choice_problem.h"

namespace shardwright::planner {

// A conversion between two ports of a value: forward A -> B, backward from
// the gradient B's readers give to the one A's producer takes.
struct PortConversion {
  bool possible = false;
  const sharding::Conversion* forward = nullptr;
  const sharding::Conversion* backward = nullptr;    // nullptr: no gradient
  std::int64_t forward_cost = 0, backward_cost = 0;  // in Model::unit
  std::int64_t forward_temporary = 0;                // beyond source and result
  std::int64_t backward_temporary = 0;

  [[nodiscard]] bool forward_identity() const {
    return forward == nullptr || forward->steps.empty();
  }
  [[nodiscard]] bool backward_identity() const {
    return backward == nullptr || backward->steps.empty();
  }
};

// Answers kept per (shape, dtype, with gradient or not). Deep models ask the
// same of every block.
struct PriceCache {
  struct Entry {
    std::map<std::pair<sharding::Port, sharding::Port>, PortConversion>
        conversions;
    std::map<sharding::Port, std::int64_t> bytes, gradient_bytes;
  };
  std::vector<Entry> entries;  // by Model::price_class
  explicit PriceCache(std::size_t count) : entries(count) {}
};

// The reference lives as long as the model.
const PortConversion& convert_port(const Model& model, ValueId value,
                                   const sharding::Port& from,
                                   const sharding::Port& to);

// Local bytes, on coordinate 0, of a value and of its gradient (0: it has none)
// at a port.
std::int64_t port_bytes(const Model& model, ValueId value,
                        const sharding::Port& port);
std::int64_t gradient_bytes(const Model& model, ValueId value,
                            const sharding::Port& port);

// Appends the closed interval [first, last] unless it is empty.
void add_interval(std::vector<solver::MemoryInterval>& out, std::int32_t first,
                  std::int32_t last, std::int64_t bytes);

// True when the slot is run again by a recompute of its region (a recompute
// stops after the last op that saves a tensor).
bool runs_again(const Model& model, std::int32_t slot);

sharding::Port replicated(const Model& model);

}  // namespace shardwright::planner
