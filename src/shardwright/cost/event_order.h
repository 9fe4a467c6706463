// Whether the events of a record can have happened in the order they stand in.
#pragma once

#include <optional>
#include <string>

#include "shardwright/cost/record.h"

namespace shardwright::cost::internal {

// What is impossible about a record, in words that name the event; nullopt when
// nothing is. A replay that trusted such a record would free what is not there
// or count bytes that nobody made. Possible means:
// - forward allocates and frees new storages; results and saved tensors lie in
//   operands or in new storages that are there at its end;
// - backward also releases saved tensors and drops incoming gradients, each at
//   most once; it frees only what it allocated itself (older storages die with
//   their last reference); gradients lie in storages it made and did not free,
//   or are incoming ones;
// - every new storage is allocated exactly once.
// Variants are not looked at. Indices must be in range. O(size of the record).
std::optional<std::string> impossible_order(const Record& record);

}  // namespace shardwright::cost::internal
