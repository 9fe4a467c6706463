#include "shardwright/base/permutation.h"

namespace shardwright {

std::optional<std::vector<std::int32_t>> as_permutation(
    const std::vector<std::int64_t>& numbers, std::size_t count) {
  if (numbers.size() != count) return std::nullopt;
  std::vector<std::int32_t> out;
  std::vector<bool> seen(count, false);
  for (const std::int64_t number : numbers) {
    const bool in_range =
        number >= 0 && number < static_cast<std::int64_t>(count);
    if (!in_range || seen[static_cast<std::size_t>(number)]) {
      return std::nullopt;
    }
    seen[static_cast<std::size_t>(number)] = true;
    out.push_back(static_cast<std::int32_t>(number));
  }
  return out;
}

}  // namespace shardwright
