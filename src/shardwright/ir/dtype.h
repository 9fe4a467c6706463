// Element types, by torch's names.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "shardwright/base/result.h"

namespace shardwright::ir {

enum class DType {
  kFloat64,
  kFloat32,
  kFloat16,
  kBFloat16,
  kComplex64,
  kComplex128,
  kInt64,
  kInt32,
  kInt16,
  kInt8,
  kUInt8,
  kBool,
};

std::string_view to_string(DType dtype);
// Error kInvalidGraph for a name that is none of the above.
Result<DType> parse_dtype(std::string_view name);
std::int64_t size_of(DType dtype);  // bytes per element
bool is_floating(DType dtype);      // can carry a gradient (complex included)

}  // namespace shardwright::ir
