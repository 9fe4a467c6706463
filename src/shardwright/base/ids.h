// Strong integer ids: a ValueId is not an OpId. `kNone` is the invalid state.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace shardwright {

template <typename Tag>
struct StrongId {
  std::int32_t value = -1;

  constexpr StrongId() = default;
  constexpr explicit StrongId(std::int32_t v) : value(v) {}
  constexpr explicit StrongId(std::size_t v)
      : value(static_cast<std::int32_t>(v)) {}
  constexpr auto operator<=>(const StrongId&) const = default;
  [[nodiscard]] constexpr bool valid() const { return value >= 0; }
  [[nodiscard]] constexpr std::size_t index() const {
    return static_cast<std::size_t>(value);
  }
};

using ValueId = StrongId<struct ValueTag>;
using OpId = StrongId<struct OpTag>;
using AxisId = StrongId<struct AxisTag>;
using RegionId = StrongId<struct RegionTag>;

}  // namespace shardwright
