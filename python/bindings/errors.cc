#include <exception>
#include <string>

#include "bind.h"
#include "shardwright/base/check.h"

namespace shardwright::bindings {

std::string_view exception_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidGraph:
      return "InvalidGraphError";
    case ErrorCode::kInvalidPlan:
      return "InvalidPlanError";
    case ErrorCode::kVersionMismatch:
      return "VersionMismatchError";
    case ErrorCode::kInfeasible:
      return "InfeasibleError";
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kInvalidMesh:
    case ErrorCode::kUnsupportedOp:
    case ErrorCode::kParseError:
    case ErrorCode::kIoError:
      return "ShardwrightError";
  }
  return "ShardwrightError";
}

namespace {

// Sets (does not throw) the Python error `name` of shardwright.errors.
void set_python_error(std::string_view name, const std::string& message,
                      std::string_view code) {
  nb::object type = nb::module_::import_("shardwright.errors")
                        .attr(std::string(name).c_str());
  nb::object error = type(message);
  error.attr("code") = nb::str(code.data(), code.size());
  PyErr_SetObject(type.ptr(), error.ptr());
}

}  // namespace

void raise_error(const Error& error) {
  // An interrupt (Ctrl-C) noticed during the call is the true cause.
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  set_python_error(exception_name(error.code), error.message,
                   to_string(error.code));
  throw nb::python_error();
}

void register_internal_error() {
  nb::register_exception_translator(
      [](const std::exception_ptr& pointer, void*) {
        try {
          std::rethrow_exception(pointer);
        } catch (const InternalError& error) {
          set_python_error("InternalError", error.what(), "internal");
        }
      });
}

}  // namespace shardwright::bindings
