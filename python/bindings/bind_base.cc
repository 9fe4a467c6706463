#include <string>

#include "bind.h"
#include "shardwright/base/check.h"
#include "shardwright/base/json.h"
#include "shardwright/base/version.h"

namespace shardwright::bindings {

void bind_base(nb::module_& module) {
  module.def(
      "version", [] { return std::string(shardwright::version()); },
      "Version of the C++ core.");
  module.def(
      "sha256", [](const std::string& text) { return sha256_hex(text); },
      "text"_a,
      "SHA-256 of the text's UTF-8 bytes, in hexadecimal: the hash that plans "
      "and graphs carry.");
  // Lets the tests see how InternalError arrives in Python.
  module.def(
      "_break_invariant",
      [](const std::string& detail) { SW_CHECK(false, detail); }, "detail"_a,
      "Raises InternalError.");
}

}  // namespace shardwright::bindings
