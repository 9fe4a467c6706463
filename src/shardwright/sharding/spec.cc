#include "shardwright/sharding/spec.h"

#include <fmt/format.h>

#include <algorithm>

#include "shardwright/base/check.h"

namespace shardwright::sharding {
namespace {

tl::unexpected<Error> bad_text(const std::string& text,
                               const std::string& reason) {
  return make_error(ErrorCode::kParseError,
                    fmt::format("[sharding] '{}' is no sharding: {}. Try: [a, "
                                "-] or [a:b, -] partial{{c}}.",
                                text, reason));
}

std::string without_spaces(const std::string& text) {
  std::string kept;
  for (const char c : text) {
    if (c != ' ' && c != '\t') kept += c;
  }
  return kept;
}

// "x,y" -> {"x","y"}; "" -> {}.
std::vector<std::string> pieces(const std::string& text, char separator) {
  std::vector<std::string> parts;
  if (text.empty()) return parts;
  std::size_t begin = 0;
  while (true) {
    const std::size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string::npos) return parts;
    begin = end + 1;
  }
}

Result<std::vector<std::int32_t>> parse_axes(const std::string& text,
                                             char separator,
                                             const std::string& whole,
                                             const DeviceMesh& mesh) {
  std::vector<std::int32_t> axes;
  for (const std::string& name : pieces(text, separator)) {
    const std::int32_t axis = mesh.axis_index(name);
    if (axis < 0) {
      return bad_text(whole, fmt::format("'{}' is no axis of mesh {}", name,
                                         mesh::to_string(mesh)));
    }
    axes.push_back(axis);
  }
  return axes;
}

std::string axis_names(const std::vector<std::int32_t>& axes,
                       const char* separator, const DeviceMesh& mesh) {
  std::string text;
  for (const std::int32_t axis : axes) {
    if (!text.empty()) text += separator;
    text += mesh.axes.at(static_cast<std::size_t>(axis)).name;
  }
  return text;
}

}  // namespace

ShardingSpec replicated(std::size_t rank) {
  ShardingSpec spec;
  spec.dims.resize(rank);
  return spec;
}

bool is_replicated(const ShardingSpec& spec) {
  return spec.partial.empty() &&
         std::all_of(spec.dims.begin(), spec.dims.end(),
                     [](const auto& axes) { return axes.empty(); });
}

Result<bool> validate(const ShardingSpec& spec, const DeviceMesh& mesh) {
  std::vector<bool> used(mesh.axes.size(), false);
  const auto use = [&](std::int32_t axis) -> Result<bool> {
    if (axis < 0 || static_cast<std::size_t>(axis) >= used.size()) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("[sharding] axis {} is not on mesh {}",
                                    axis, mesh::to_string(mesh)));
    }
    if (used[static_cast<std::size_t>(axis)]) {
      return make_error(
          ErrorCode::kInvalidArgument,
          fmt::format("[sharding] axis '{}' is used twice: an axis splits one "
                      "dim or is partial, once",
                      mesh.axes[static_cast<std::size_t>(axis)].name));
    }
    used[static_cast<std::size_t>(axis)] = true;
    return true;
  };
  for (const auto& axes : spec.dims) {
    for (const std::int32_t axis : axes) SW_RETURN_IF_ERROR(use(axis));
  }
  for (const std::int32_t axis : spec.partial) SW_RETURN_IF_ERROR(use(axis));
  if (!std::is_sorted(spec.partial.begin(), spec.partial.end())) {
    return make_error(ErrorCode::kInvalidArgument,
                      "[sharding] partial axes must be in mesh order");
  }
  return true;
}

std::string to_string(const ShardingSpec& spec, const DeviceMesh& mesh) {
  std::string text = "[";
  for (std::size_t dim = 0; dim < spec.dims.size(); ++dim) {
    if (dim > 0) text += ", ";
    text +=
        spec.dims[dim].empty() ? "-" : axis_names(spec.dims[dim], ":", mesh);
  }
  text += "]";
  if (!spec.partial.empty()) {
    text += " partial{" + axis_names(spec.partial, ",", mesh) + "}";
  }
  return text;
}

Result<ShardingSpec> parse_spec(const std::string& text,
                                const DeviceMesh& mesh) {
  const std::string bare = without_spaces(text);
  const std::size_t close = bare.find(']');
  if (bare.empty() || bare.front() != '[' || close == std::string::npos) {
    return bad_text(text, "expected '[' ... ']'");
  }
  ShardingSpec spec;
  for (const std::string& dim : pieces(bare.substr(1, close - 1), ',')) {
    if (dim == "-") {
      spec.dims.emplace_back();
      continue;
    }
    if (dim.empty()) return bad_text(text, "a dim is empty: expected '-'");
    SW_ASSIGN_OR_RETURN(auto axes, parse_axes(dim, ':', text, mesh));
    spec.dims.push_back(std::move(axes));
  }
  const std::string rest = bare.substr(close + 1);
  if (!rest.empty()) {
    if (!rest.starts_with("partial{") || rest.back() != '}') {
      return bad_text(text, "expected 'partial{...}' or nothing after ']'");
    }
    SW_ASSIGN_OR_RETURN(
        spec.partial,
        parse_axes(rest.substr(8, rest.size() - 9), ',', text, mesh));
    std::sort(spec.partial.begin(), spec.partial.end());
  }
  if (const auto valid = validate(spec, mesh); !valid) {
    return bad_text(text, valid.error().message);
  }
  return spec;
}

LocalRange chunk(LocalRange range, std::int64_t ranks, std::int64_t index) {
  const std::int64_t part = (range.size + ranks - 1) / ranks;
  const std::int64_t begin = std::min(range.size, part * index);
  const std::int64_t end = std::min(range.size, part * (index + 1));
  return {range.offset + begin, end - begin};
}

std::vector<LocalRange> local_ranges(
    const std::vector<std::int64_t>& shape, const ShardingSpec& spec,
    const DeviceMesh& mesh, const std::vector<std::int64_t>& coordinate) {
  SW_CHECK(spec.dims.size() == shape.size(), "spec and shape differ in rank");
  std::vector<LocalRange> ranges(shape.size());
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    LocalRange range{0, shape[dim]};
    for (const std::int32_t axis : spec.dims[dim]) {
      const auto at = static_cast<std::size_t>(axis);
      range = chunk(range, mesh.axes.at(at).size,
                    coordinate.empty() ? 0 : coordinate.at(at));
    }
    ranges[dim] = range;
  }
  return ranges;
}

std::vector<std::int64_t> local_shape(
    const std::vector<std::int64_t>& shape, const ShardingSpec& spec,
    const DeviceMesh& mesh, const std::vector<std::int64_t>& coordinate) {
  std::vector<std::int64_t> local;
  for (const LocalRange& range : local_ranges(shape, spec, mesh, coordinate)) {
    local.push_back(range.size);
  }
  return local;
}

Bytes local_bytes(const std::vector<std::int64_t>& shape,
                  const ShardingSpec& spec, const DeviceMesh& mesh,
                  std::int64_t element_bytes,
                  const std::vector<std::int64_t>& coordinate) {
  std::int64_t bytes = element_bytes;
  for (const std::int64_t size : local_shape(shape, spec, mesh, coordinate)) {
    bytes *= size;
  }
  return Bytes(bytes);
}

}  // namespace shardwright::sharding
