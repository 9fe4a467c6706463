// SW_CHECK: an invariant of ours. A failure is a bug in shardwright, never the
// user's fault; it throws, so that a host process (Python) survives.
#pragma once

#include <stdexcept>
#include <string>

namespace shardwright {

class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

namespace internal {
[[noreturn]] void check_failed(const char* file, int line,
                               const char* condition,
                               const std::string& detail);
}  // namespace internal

}  // namespace shardwright

#define SW_CHECK(condition, detail)                                         \
  do {                                                                      \
    if (!(condition)) {                                                     \
      ::shardwright::internal::check_failed(__FILE__, __LINE__, #condition, \
                                            (detail));                      \
    }                                                                       \
  } while (false)
