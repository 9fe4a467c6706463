#include "shardwright/base/units.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <cstdlib>
#include <map>

namespace shardwright {

std::string human(Bytes bytes) {
  static constexpr std::array<const char*, 5> kNames = {"B", "KiB", "MiB",
                                                        "GiB", "TiB"};
  double value = static_cast<double>(bytes.value);
  std::size_t unit = 0;
  while (std::abs(value) >= 1024.0 && unit + 1 < kNames.size()) {
    value /= 1024.0;
    ++unit;
  }
  if (unit == 0) return fmt::format("{} B", bytes.value);
  return fmt::format("{:.2f} {}", value, kNames[unit]);
}

std::string human(Seconds seconds) {
  const double value = seconds.value;
  const double size = std::abs(value);
  if (size >= 1.0) return fmt::format("{:.3f} s", value);
  if (size >= 1e-3) return fmt::format("{:.3f} ms", value * 1e3);
  return fmt::format("{:.2f} us", value * 1e6);
}

Bytes parse_bytes(const std::string& text) {
  static const std::map<std::string, double> kUnits = {
      {"", 1},
      {"b", 1},
      {"kb", 1e3},
      {"kib", 1024.0},
      {"mb", 1e6},
      {"mib", 1024.0 * 1024},
      {"gb", 1e9},
      {"gib", 1024.0 * 1024 * 1024},
      {"tb", 1e12},
      {"tib", 1024.0 * 1024 * 1024 * 1024},
      {"k", 1024.0},
      {"m", 1024.0 * 1024},
      {"g", 1024.0 * 1024 * 1024}};
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || !(number >= 0)) return Bytes(-1);
  std::string unit;
  for (; *end != '\0'; ++end) {
    if (!std::isspace(static_cast<unsigned char>(*end))) {
      unit += static_cast<char>(std::tolower(static_cast<unsigned char>(*end)));
    }
  }
  const auto found = kUnits.find(unit);
  if (found == kUnits.end()) return Bytes(-1);
  const double total = number * found->second;
  if (!(total < 9e18)) return Bytes(-1);
  return Bytes(static_cast<std::int64_t>(total));
}

}  // namespace shardwright
