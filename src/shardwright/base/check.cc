#include "shardwright/base/check.h"

#include <fmt/format.h>

#include <cstring>

namespace shardwright::internal {

void check_failed(const char* file, int line, const char* condition,
                  const std::string& detail) {
  const char* name = std::strstr(file, "shardwright/");
  throw InternalError(
      fmt::format("internal error at {}:{}: {} does not hold: {}. This is a "
                  "bug in shardwright; please report it with the input.",
                  name != nullptr ? name : file, line, condition, detail));
}

}  // namespace shardwright::internal
