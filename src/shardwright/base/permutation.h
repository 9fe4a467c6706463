// Orders of dims as files have them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace shardwright {

// `numbers` as small ones if each of 0 .. count - 1 stands there once, else
// nullopt.
std::optional<std::vector<std::int32_t>> as_permutation(
    const std::vector<std::int64_t>& numbers, std::size_t count);

}  // namespace shardwright
