// Footprint of an op at local sizes: its record condensed to what liveness
// needs, one number per life.
//
// At its forward position an op adds its new results, its internals (saved
// storages that are no result: masks, statistics, log-sum-exp) and a forward
// temporary; at its backward position the new gradients and a backward
// temporary. A temporary is the highest level its program reaches above the
// level before it, less what stays: so result + internals + temporary is
// exactly the op's peak above its start.
#pragma once

#include <cstdint>
#include <vector>

#include "shardwright/cost/record.h"

namespace shardwright::cost {

struct Footprint {
  std::vector<std::int64_t> result_bytes;  // new bytes of each result, 0: alias
  std::vector<std::int32_t> result_alias;  // operand it aliases, or -1
  std::vector<bool> saves_operand;         // per operand
  std::vector<bool> saves_result;          // per result
  bool saves_anything = false;             // packs at least one tensor
  std::int64_t internal_bytes = 0;
  std::int64_t forward_temporary = 0;
  std::vector<std::int64_t> gradient_bytes;  // new, per operand; 0: alias, none
  std::vector<std::int32_t> gradient_alias;  // result whose gradient it is, -1
  std::int64_t backward_temporary = 0;
};

// Complexity: linear in the record. `num_operands` and `num_results` are the
// op's.
Footprint footprint_of(const Record& record,
                       const std::vector<std::int64_t>& factor_sizes,
                       std::size_t num_operands, std::size_t num_results);

}  // namespace shardwright::cost
