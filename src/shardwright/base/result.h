// Result<T>: a value, or an Error that says whose fault it is and what to try.
//
// Bad input is a Result, a broken invariant of ours is an InternalError (see
// check.h), and "no plan exists" is a status of a solver's answer, never an
// error.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace shardwright {

enum class ErrorCode {
  kInvalidArgument,
  kInvalidGraph,
  kInvalidMesh,
  kInvalidPlan,
  kUnsupportedOp,
  kParseError,
  kVersionMismatch,
  kIoError,
  kInfeasible,  // only at the border: make_plan answers with it
};

// Stable lower-case name, used in JSON and in the Python exceptions' mapping.
std::string_view to_string(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::kInvalidArgument;
  // "[layer] what is wrong: expected X, got Y (where). Try: ..."
  std::string message;
};

template <typename T>
using Result = tl::expected<T, Error>;

inline tl::unexpected<Error> make_error(ErrorCode code, std::string message) {
  return tl::unexpected<Error>(Error{code, std::move(message)});
}

}  // namespace shardwright

// Returns the error of `expr` from the calling function, or binds its value.
#define SW_CONCAT_INNER(a, b) a##b
#define SW_CONCAT(a, b) SW_CONCAT_INNER(a, b)
#define SW_ASSIGN_OR_RETURN_IMPL(tmp, decl, expr) \
  auto tmp = (expr);                              \
  if (!tmp) return tl::unexpected(tmp.error());   \
  decl = std::move(*tmp)
#define SW_ASSIGN_OR_RETURN(decl, expr) \
  SW_ASSIGN_OR_RETURN_IMPL(SW_CONCAT(sw_result_, __LINE__), decl, expr)
#define SW_RETURN_IF_ERROR(expr)           \
  if (auto sw_status = (expr); !sw_status) \
  return tl::unexpected(sw_status.error())
