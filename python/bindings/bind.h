// What every bind_<layer>.cc uses. A binding is a thin function of text: JSON
// in, JSON out, under the name the C++ function has.
//
//   void bind_rules(nb::module_& module) {
//     module.def("factor_maps", [](const std::string& graph_json) {
//       return without_gil([&] { return rules::factor_maps_text(graph_json);
//       });
//     }, "graph_json"_a, "...");
//   }
//
// Errors at this border: an Error becomes the exception of shardwright.errors
// that `exception_name` gives for its code, with the code's stable name in the
// attribute `code`; a broken invariant becomes
// shardwright.errors.InternalError.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string_view>
#include <utility>

#include "shardwright/base/result.h"

namespace shardwright::bindings {

namespace nb = nanobind;
using namespace nb::literals;

// The class of shardwright.errors for a code ("InvalidGraphError").
std::string_view exception_name(ErrorCode code);

// Raises the Python exception of `error`; the GIL must be held.
[[noreturn]] void raise_error(const Error& error);

// Makes InternalError arrive in Python as shardwright.errors.InternalError.
void register_internal_error();

// Runs `body`, which returns a Result<T> and touches no Python object, with
// the GIL released; gives T or raises.
template <typename Body>
auto without_gil(Body&& body) {
  auto result = [&] {
    nb::gil_scoped_release release;
    return std::forward<Body>(body)();
  }();
  if (!result) raise_error(result.error());
  return std::move(*result);
}

void bind_base(nb::module_& module);
void bind_ir(nb::module_& module);
void bind_rules(nb::module_& module);
void bind_strategy(nb::module_& module);
void bind_planner(nb::module_& module);
void bind_verify(nb::module_& module);

}  // namespace shardwright::bindings
