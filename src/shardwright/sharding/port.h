// Port: how a tensor and its gradient lie where they leave a producer or enter
// a consumer, one symbol per mesh axis, in mesh order.
//
//   R     replicated, gradient replicated
//   D     replicated, gradient partial (its sum is still to be taken)
//   P     partial sum, gradient replicated
//   S<d>  split along dim d, gradient split alike
//
// Text: "S0,D". Axes that share a dim are in mesh order, the first is major.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "shardwright/base/result.h"
#include "shardwright/sharding/spec.h"

namespace shardwright::sharding {

struct Symbol {
  enum Kind : std::uint8_t { kReplicate, kPartialGradient, kPartial, kShard };
  Kind kind = kReplicate;
  std::int8_t dim = -1;  // of kShard only, else -1

  auto operator<=>(const Symbol&) const = default;
};

inline constexpr Symbol kR{Symbol::kReplicate, -1};
inline constexpr Symbol kD{Symbol::kPartialGradient, -1};
inline constexpr Symbol kP{Symbol::kPartial, -1};
constexpr Symbol shard(std::size_t dim) {
  return {Symbol::kShard, static_cast<std::int8_t>(dim)};
}

using Port = std::vector<Symbol>;

std::string to_string(const Symbol& symbol);
std::string to_string(const Port& port);
// Errors: kParseError (unknown symbol, not one per axis, dim above 127).
Result<Port> parse_port(const std::string& text, std::size_t num_axes);

// Layout of the tensor and of its gradient. Requires dims below `rank`.
ShardingSpec forward_spec(const Port& port, std::size_t rank);
ShardingSpec gradient_spec(const Port& port, std::size_t rank);

}  // namespace shardwright::sharding
