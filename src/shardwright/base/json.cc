#include "shardwright/base/json.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

namespace shardwright {
namespace {

namespace fs = std::filesystem;

std::string type_of(const Json& value) { return value.type_name(); }

// What the JSON library says, without its error numbers, and with '?' for bytes
// that a terminal may not show.
std::string reason_of(const std::exception& error) {
  std::string reason = error.what();
  const std::size_t end = reason.find("] ");
  if (reason.starts_with("[json.exception") && end != std::string::npos) {
    reason.erase(0, end + 2);
  }
  for (char& c : reason) {
    if (c < ' ' || c > '~') c = '?';
  }
  return reason;
}

tl::unexpected<Error> cannot_write(const std::string& path,
                                   const std::string& reason) {
  return make_error(ErrorCode::kIoError,
                    fmt::format("[io] cannot write {}: {}", path, reason));
}

// A device or a pipe: written to, never replaced.
bool is_special(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored) && !fs::is_regular_file(path, ignored) &&
         !fs::is_directory(path, ignored);
}

// Empty, or why it failed.
std::string write_to(const fs::path& path, const std::string& text) {
  errno = 0;
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (out) return "";
  return errno != 0 ? std::strerror(errno) : "writing failed";
}

Result<const Json*> member(const Json& object, const char* key,
                           const std::string& where) {
  if (!object.is_object()) {
    return make_error(ErrorCode::kParseError,
                      fmt::format("[json] {}: expected an object with '{}', "
                                  "got {}",
                                  where, key, type_of(object)));
  }
  const auto found = object.find(key);
  if (found == object.end()) {
    return make_error(ErrorCode::kParseError,
                      fmt::format("[json] {}: '{}' is missing", where, key));
  }
  return &*found;
}

tl::unexpected<Error> wrong_type(const char* key, const char* expected,
                                 const Json& value, const std::string& where) {
  return make_error(ErrorCode::kParseError,
                    fmt::format("[json] {}: '{}' must be {}, got {}", where,
                                key, expected, type_of(value)));
}

// Brackets open at the deepest place, texts left out.
int depth_of(const std::string& text) {
  int depth = 0;
  int deepest = 0;
  bool in_text = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_text) {
      if (c == '\\') ++i;
      in_text = c != '"';
    } else if (c == '"') {
      in_text = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return deepest;
}

bool fits_64_bits(const Json& integer) {
  return !integer.is_number_unsigned() ||
         integer.get<std::uint64_t>() <=
             std::uint64_t{std::numeric_limits<std::int64_t>::max()};
}

bool fits_32_bits(std::int64_t number) {
  return number >= std::numeric_limits<std::int32_t>::min() &&
         number <= std::numeric_limits<std::int32_t>::max();
}

tl::unexpected<Error> no_index(const char* key, std::int64_t got,
                               const std::string& where) {
  return make_error(ErrorCode::kParseError,
                    fmt::format("[json] {}: '{}' must be an index, a number "
                                "below 2^31, got {}",
                                where, key, got));
}

}  // namespace

Result<Json> parse_json(const std::string& text, const std::string& what) {
  if (const int depth = depth_of(text); depth > kMaxJsonDepth) {
    return make_error(ErrorCode::kParseError,
                      fmt::format("[json] {} is not readable: lists in lists "
                                  "{} deep, expected at most {}. Try: make the "
                                  "file again.",
                                  what, depth, kMaxJsonDepth));
  }
  Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) {
    std::string reason = "damaged JSON";
    try {
      reason = Json::parse(text).type_name();
    } catch (const std::exception& e) {
      reason = reason_of(e);
    }
    return make_error(ErrorCode::kParseError,
                      fmt::format("[json] {} is not readable: {}. Try: make "
                                  "the file again.",
                                  what, reason));
  }
  return value;
}

Result<std::string> read_text_file(const std::string& path) {
  std::error_code ignored;
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in || fs::is_directory(path, ignored)) {
    const std::string reason =
        errno != 0 ? std::strerror(errno) : "it is a folder";
    return make_error(
        ErrorCode::kIoError,
        fmt::format("[io] cannot read {}: {}. Try: check the path", path,
                    reason));
  }
  std::ostringstream out;
  out << in.rdbuf();
  if (in.bad()) {
    return make_error(ErrorCode::kIoError,
                      fmt::format("[io] cannot read {}", path));
  }
  return out.str();
}

Result<Json> read_json_file(const std::string& path) {
  SW_ASSIGN_OR_RETURN(const std::string text, read_text_file(path));
  return parse_json(text, path);
}

Result<bool> write_text_file(const std::string& path, const std::string& text) {
  std::error_code failed;
  fs::path target = fs::weakly_canonical(path, failed);
  if (failed) target = path;
  if (fs::is_directory(target, failed)) {
    return cannot_write(path, "it is a folder. Try: a file in it");
  }
  const fs::path folder = target.parent_path();
  if (!folder.empty() && !fs::is_directory(folder, failed)) {
    return cannot_write(path,
                        fmt::format("there is no folder {}. Try: mkdir -p {}",
                                    folder.string(), folder.string()));
  }
  if (is_special(target)) {
    const std::string reason = write_to(target, text);
    return reason.empty() ? Result<bool>(true) : cannot_write(path, reason);
  }
  fs::path beside = target;
  beside += fmt::format(".{}.part", getpid());
  std::string reason = write_to(beside, text);
  if (reason.empty()) {
    fs::rename(beside, target, failed);
    if (!failed) return true;
    reason = failed.message();
  }
  fs::remove(beside, failed);
  return cannot_write(path, reason);
}

Result<std::int64_t> get_int(const Json& object, const char* key,
                             const std::string& where) {
  SW_ASSIGN_OR_RETURN(const Json* value, member(object, key, where));
  if (!value->is_number_integer()) {
    return wrong_type(key, "a whole number", *value, where);
  }
  if (!fits_64_bits(*value)) {
    return wrong_type(key, "a number below 2^63", *value, where);
  }
  return value->get<std::int64_t>();
}

Result<std::int32_t> get_index(const Json& object, const char* key,
                               const std::string& where) {
  SW_ASSIGN_OR_RETURN(const std::int64_t number, get_int(object, key, where));
  if (!fits_32_bits(number)) return no_index(key, number, where);
  return static_cast<std::int32_t>(number);
}

Result<double> get_double(const Json& object, const char* key,
                          const std::string& where) {
  SW_ASSIGN_OR_RETURN(const Json* value, member(object, key, where));
  if (!value->is_number()) return wrong_type(key, "a number", *value, where);
  return value->get<double>();
}

Result<std::string> get_string(const Json& object, const char* key,
                               const std::string& where) {
  SW_ASSIGN_OR_RETURN(const Json* value, member(object, key, where));
  if (!value->is_string()) return wrong_type(key, "a text", *value, where);
  return value->get<std::string>();
}

Result<bool> get_bool(const Json& object, const char* key,
                      const std::string& where) {
  SW_ASSIGN_OR_RETURN(const Json* value, member(object, key, where));
  if (!value->is_boolean()) {
    return wrong_type(key, "true or false", *value, where);
  }
  return value->get<bool>();
}

Result<const Json*> get_array(const Json& object, const char* key,
                              const std::string& where) {
  SW_ASSIGN_OR_RETURN(const Json* value, member(object, key, where));
  if (!value->is_array()) return wrong_type(key, "a list", *value, where);
  return value;
}

Result<const Json*> get_object(const Json& object, const char* key,
                               const std::string& where) {
  SW_ASSIGN_OR_RETURN(const Json* value, member(object, key, where));
  if (!value->is_object()) return wrong_type(key, "an object", *value, where);
  return value;
}

Result<bool> check_keys(const Json& object,
                        std::initializer_list<std::string_view> known,
                        const std::string& where) {
  for (const auto& [key, unused] : object.items()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      return make_error(ErrorCode::kParseError,
                        fmt::format("[json] {}: unknown field '{}'. Try: one "
                                    "of {}",
                                    where, key, fmt::join(known, ", ")));
    }
  }
  return true;
}

Result<std::vector<std::int64_t>> get_ints(const Json& object, const char* key,
                                           const std::string& where) {
  SW_ASSIGN_OR_RETURN(const Json* list, get_array(object, key, where));
  std::vector<std::int64_t> out;
  out.reserve(list->size());
  for (const Json& item : *list) {
    if (!item.is_number_integer()) {
      return wrong_type(key, "a list of whole numbers", item, where);
    }
    if (!fits_64_bits(item)) {
      return wrong_type(key, "a list of numbers below 2^63", item, where);
    }
    out.push_back(item.get<std::int64_t>());
  }
  return out;
}

Result<std::vector<std::int32_t>> get_indices(const Json& object,
                                              const char* key,
                                              const std::string& where) {
  SW_ASSIGN_OR_RETURN(const std::vector<std::int64_t> numbers,
                      get_ints(object, key, where));
  std::vector<std::int32_t> out;
  out.reserve(numbers.size());
  for (const std::int64_t number : numbers) {
    if (!fits_32_bits(number)) return no_index(key, number, where);
    out.push_back(static_cast<std::int32_t>(number));
  }
  return out;
}

}  // namespace shardwright
