// Quantities carry their unit in the type: Bytes, Flops, Seconds.
//
// Solvers count time in integer picoseconds (exact sums); models compute in
// Seconds (double) and convert once, at the border, with to_picoseconds.
#pragma once

#include <cmath>
#include <compare>
#include <cstdint>
#include <string>

namespace shardwright {

template <typename Tag, typename Rep>
struct Quantity {
  Rep value{};

  constexpr Quantity() = default;
  constexpr explicit Quantity(Rep v) : value(v) {}
  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity& operator+=(Quantity other) {
    value += other.value;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    value -= other.value;
    return *this;
  }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return a += b; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return a -= b; }
  friend constexpr Quantity operator*(Quantity a, Rep k) {
    return Quantity(a.value * k);
  }
  friend constexpr Quantity operator*(Rep k, Quantity a) { return a * k; }
};

using Bytes = Quantity<struct BytesTag, std::int64_t>;
using Flops = Quantity<struct FlopsTag, double>;
using Seconds = Quantity<struct SecondsTag, double>;
using Picoseconds = Quantity<struct PicosecondsTag, std::int64_t>;

inline Picoseconds to_picoseconds(Seconds seconds) {
  return Picoseconds(
      static_cast<std::int64_t>(std::llround(seconds.value * 1e12)));
}
inline Seconds to_seconds(Picoseconds ps) {
  return Seconds(static_cast<double>(ps.value) * 1e-12);
}

// "1.50 GiB", "312 B"; exact below 1 KiB, three significant digits above.
std::string human(Bytes bytes);
// "1.23 ms", "45.0 us".
std::string human(Seconds seconds);
// Accepts "70GiB", "1.5 GB", "512MiB", "1024" (bytes); -1 bytes on bad text.
Bytes parse_bytes(const std::string& text);

}  // namespace shardwright
