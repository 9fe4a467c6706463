#include "shardwright/base/json.h"

#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <sstream>

namespace shardwright {
namespace {

std::string type_of(const Json& value) { return value.type_name(); }

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

}  // namespace

Result<Json> parse_json(const std::string& text, const std::string& what) {
  Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) {
    std::string reason = "damaged JSON";
    try {
      reason = Json::parse(text).type_name();
    } catch (const std::exception& e) {
      reason = e.what();
    }
    return make_error(ErrorCode::kParseError,
                      fmt::format("[json] {} is not readable: {}. Try: make "
                                  "the file again.",
                                  what, reason));
  }
  return value;
}

Result<std::string> read_text_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    return make_error(ErrorCode::kIoError,
                      fmt::format("[io] cannot open {}: no such file, or not "
                                  "readable",
                                  path));
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
  const std::string beside = path + ".part";
  {
    std::ofstream out(beside, std::ios::binary | std::ios::trunc);
    out << text;
    out.flush();
    if (!out) {
      std::remove(beside.c_str());
      return make_error(ErrorCode::kIoError,
                        fmt::format("[io] cannot write {}", path));
    }
  }
  if (std::rename(beside.c_str(), path.c_str()) != 0) {
    std::remove(beside.c_str());
    return make_error(ErrorCode::kIoError,
                      fmt::format("[io] cannot replace {}", path));
  }
  return true;
}

Result<std::int64_t> get_int(const Json& object, const char* key,
                             const std::string& where) {
  SW_ASSIGN_OR_RETURN(const Json* value, member(object, key, where));
  if (!value->is_number_integer()) {
    return wrong_type(key, "a whole number", *value, where);
  }
  if (value->is_number_unsigned() &&
      value->get<std::uint64_t>() > 9223372036854775807ULL) {
    return wrong_type(key, "a number below 2^63", *value, where);
  }
  return value->get<std::int64_t>();
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

Result<std::vector<std::int64_t>> get_ints(const Json& object, const char* key,
                                           const std::string& where) {
  SW_ASSIGN_OR_RETURN(const Json* list, get_array(object, key, where));
  std::vector<std::int64_t> out;
  out.reserve(list->size());
  for (const Json& item : *list) {
    if (!item.is_number_integer()) {
      return wrong_type(key, "a list of whole numbers", item, where);
    }
    out.push_back(item.get<std::int64_t>());
  }
  return out;
}

}  // namespace shardwright
