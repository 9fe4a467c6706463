#include "shardwright/ir/dtype.h"

#include <fmt/format.h>

#include <array>

namespace shardwright::ir {
namespace {

struct Entry {
  DType dtype;
  std::string_view name;
  std::int64_t size;
  bool floating;
};

constexpr std::array<Entry, 12> kTable = {{
    {DType::kFloat64, "float64", 8, true},
    {DType::kFloat32, "float32", 4, true},
    {DType::kFloat16, "float16", 2, true},
    {DType::kBFloat16, "bfloat16", 2, true},
    {DType::kComplex64, "complex64", 8, true},
    {DType::kComplex128, "complex128", 16, true},
    {DType::kInt64, "int64", 8, false},
    {DType::kInt32, "int32", 4, false},
    {DType::kInt16, "int16", 2, false},
    {DType::kInt8, "int8", 1, false},
    {DType::kUInt8, "uint8", 1, false},
    {DType::kBool, "bool", 1, false},
}};

const Entry& entry(DType dtype) {
  return kTable[static_cast<std::size_t>(dtype)];
}

}  // namespace

std::string_view to_string(DType dtype) { return entry(dtype).name; }
std::int64_t size_of(DType dtype) { return entry(dtype).size; }
bool is_floating(DType dtype) { return entry(dtype).floating; }

Result<DType> parse_dtype(std::string_view name) {
  for (const Entry& candidate : kTable) {
    if (candidate.name == name) return candidate.dtype;
  }
  return make_error(ErrorCode::kInvalidGraph,
                    fmt::format("[ir] unknown element type '{}'. Try: one of "
                                "float64, float32, float16, bfloat16, "
                                "complex64, complex128, int64, int32, int16, "
                                "int8, uint8, bool.",
                                name));
}

}  // namespace shardwright::ir
