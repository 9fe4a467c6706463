// The one place that names the JSON library, with the reading helpers every
// layer uses: each failure says which key of which file was wrong.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/base/result.h"

namespace shardwright {

// Ordered, so that the same value always prints the same bytes.
using Json = nlohmann::ordered_json;

// Deeper lists in lists are damage: our files need about ten levels, and what
// walks them calls itself per level.
inline constexpr int kMaxJsonDepth = 200;

// Parses text; `what` names it in the error ("plan file p.json"). Errors:
// kParseError, for nesting beyond kMaxJsonDepth too.
Result<Json> parse_json(const std::string& text, const std::string& what);
// Reads and parses a file. Errors: kIoError, kParseError.
Result<Json> read_json_file(const std::string& path);
Result<std::string> read_text_file(const std::string& path);
// Writes beside the target and renames, so that a reader never sees half a file
// and a failure leaves what was there. Links are followed; devices and pipes
// are written to, not replaced. Error: kIoError.
Result<bool> write_text_file(const std::string& path, const std::string& text);

// Typed access: kParseError naming `where` and the key when it is missing or
// of another type.
Result<std::int64_t> get_int(const Json& object, const char* key,
                             const std::string& where);
// An id, a dim or another index: kParseError when it is no 32-bit number.
Result<std::int32_t> get_index(const Json& object, const char* key,
                               const std::string& where);
Result<double> get_double(const Json& object, const char* key,
                          const std::string& where);
Result<std::string> get_string(const Json& object, const char* key,
                               const std::string& where);
Result<bool> get_bool(const Json& object, const char* key,
                      const std::string& where);
// The member itself, required to be an array / object.
Result<const Json*> get_array(const Json& object, const char* key,
                              const std::string& where);
Result<const Json*> get_object(const Json& object, const char* key,
                               const std::string& where);
Result<std::vector<std::int64_t>> get_ints(const Json& object, const char* key,
                                           const std::string& where);
Result<std::vector<std::int32_t>> get_indices(const Json& object,
                                              const char* key,
                                              const std::string& where);

// For files that people write: a field that is not known is a slip, not a
// wish. Error: kParseError listing the known ones.
Result<bool> check_keys(const Json& object,
                        std::initializer_list<std::string_view> known,
                        const std::string& where);

// SHA-256 of the text, in hexadecimal: graph and plan hashes.
std::string sha256_hex(const std::string& text);

}  // namespace shardwright
