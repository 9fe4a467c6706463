// Conversions as JSON (for plans) and as text (for people).
#include <fmt/format.h>

#include <algorithm>

#include "shardwright/sharding/converter.h"

namespace shardwright::sharding {
namespace {

Result<bool> check_shape(const std::vector<std::int64_t>& shape,
                         std::int64_t element_bytes) {
  const bool negative = std::any_of(shape.begin(), shape.end(),
                                    [](std::int64_t size) { return size < 0; });
  if (!negative && element_bytes > 0 && shape.size() <= kMaxRank) return true;
  return make_error(
      ErrorCode::kInvalidArgument,
      fmt::format("[sharding] expected at most {} sizes of at least 0 and "
                  "elements of at least 1 byte, got ({}) of {} bytes",
                  kMaxRank, fmt::join(shape, ", "), element_bytes));
}

Result<ShardingSpec> spec_for(const std::string& text, std::size_t rank,
                              const DeviceMesh& mesh) {
  SW_ASSIGN_OR_RETURN(ShardingSpec spec, parse_spec(text, mesh));
  if (spec.rank() == rank) return spec;
  return make_error(
      ErrorCode::kInvalidArgument,
      fmt::format("[sharding] '{}' does not fit the shape: expected {} dims, "
                  "got {}",
                  text, rank, spec.rank()));
}

std::string dims_of(const CollectiveStep& step) {
  if (step.to_dim >= 0) {
    return fmt::format("dim {} -> dim {}", step.dim, step.to_dim);
  }
  return step.dim >= 0 ? fmt::format("dim {}", step.dim) : std::string();
}

}  // namespace

Json to_json(const CollectiveStep& step, const DeviceMesh& mesh) {
  Json json = {
      {"kind", mesh::to_string(step.kind)},
      {"axis", mesh.axes.at(static_cast<std::size_t>(step.axis)).name}};
  if (step.dim >= 0) json["dim"] = step.dim;
  if (step.to_dim >= 0) json["to_dim"] = step.to_dim;
  json["after"] = to_string(step.after, mesh);
  json["bytes"] = step.bytes.value;
  return json;
}

Result<std::string> describe_conversion(const std::string& from,
                                        const std::string& to,
                                        const std::vector<std::int64_t>& shape,
                                        const DeviceMesh& mesh,
                                        std::int64_t element_bytes) {
  SW_RETURN_IF_ERROR(mesh::validate(mesh));
  SW_RETURN_IF_ERROR(check_shape(shape, element_bytes));
  SW_ASSIGN_OR_RETURN(const ShardingSpec source,
                      spec_for(from, shape.size(), mesh));
  SW_ASSIGN_OR_RETURN(const ShardingSpec target,
                      spec_for(to, shape.size(), mesh));
  Converter converter(mesh);
  const Conversion& conversion =
      *converter.find(source, target, shape, element_bytes);
  std::string text =
      fmt::format("{} -> {}   shape ({}), {} bytes per element, mesh {}\n",
                  to_string(source, mesh), to_string(target, mesh),
                  fmt::join(shape, ", "), element_bytes, mesh::to_string(mesh));
  for (const CollectiveStep& step : conversion.steps) {
    text += fmt::format("  {:<14} {:<3} {:<16} {:>12} {:>12}   {}\n",
                        mesh::to_string(step.kind),
                        mesh.axes[static_cast<std::size_t>(step.axis)].name,
                        dims_of(step), human(step.bytes), human(step.time),
                        to_string(step.after, mesh));
  }
  text += fmt::format("time {}, peak {}\n", human(conversion.time),
                      human(conversion.peak));
  return text;
}

}  // namespace shardwright::sharding
