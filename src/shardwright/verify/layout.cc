#include "shardwright/verify/layout.h"

#include <fmt/format.h>

#include <algorithm>

namespace shardwright::verify::internal {
namespace {

tl::unexpected<Error> wrong(std::string text) {
  return make_error(ErrorCode::kInvalidPlan, std::move(text));
}

bool is_free(const Layout& layout, std::int32_t axis) {
  const auto& partial = layout.partial;
  if (std::find(partial.begin(), partial.end(), axis) != partial.end()) {
    return false;
  }
  return std::none_of(layout.dims.begin(), layout.dims.end(),
                      [&](const std::vector<std::int32_t>& axes) {
                        return std::find(axes.begin(), axes.end(), axis) !=
                               axes.end();
                      });
}

// The axes of one dim, or an error naming the step.
Result<std::vector<std::int32_t>*> dim_of(Layout& layout, std::int32_t dim,
                                          const std::string& kind) {
  if (dim < 0 || static_cast<std::size_t>(dim) >= layout.dims.size()) {
    return wrong(fmt::format("{} on dim {} of a tensor of {} dims", kind, dim,
                             layout.dims.size()));
  }
  return &layout.dims[static_cast<std::size_t>(dim)];
}

Result<bool> take_last(Layout& layout, std::int32_t dim, std::int32_t axis,
                       const plan::CollectiveStep& step) {
  SW_ASSIGN_OR_RETURN(std::vector<std::int32_t>* const axes,
                      dim_of(layout, dim, step.kind));
  if (axes->empty() || axes->back() != axis) {
    return wrong(
        fmt::format("{} over '{}', which is not the last axis of dim "
                    "{}",
                    step.kind, step.axis, dim));
  }
  axes->pop_back();
  return true;
}

Result<bool> take_partial(Layout& layout, std::int32_t axis,
                          const plan::CollectiveStep& step) {
  auto& partial = layout.partial;
  const auto found = std::find(partial.begin(), partial.end(), axis);
  if (found == partial.end()) {
    return wrong(fmt::format("{} over '{}', over which nothing is partial",
                             step.kind, step.axis));
  }
  partial.erase(found);
  return true;
}

Result<bool> require_free(const Layout& layout, std::int32_t axis,
                          const plan::CollectiveStep& step) {
  if (is_free(layout, axis)) return true;
  return wrong(fmt::format("{} over '{}', which the layout already uses",
                           step.kind, step.axis));
}

void insert_sorted(std::vector<std::int32_t>& list, std::int32_t axis) {
  list.insert(std::upper_bound(list.begin(), list.end(), axis), axis);
}

}  // namespace

Result<Layout> read_layout(const std::string& text, std::size_t rank,
                           const mesh::DeviceMesh& mesh) {
  auto layout = sharding::parse_spec(text, mesh);
  if (!layout) return wrong(layout.error().message);
  if (layout->dims.size() != rank) {
    return wrong(fmt::format("expected a spec of {} dims, got {}", rank, text));
  }
  return std::move(*layout);
}

Result<Layout> after_step(const Layout& layout,
                          const plan::CollectiveStep& step,
                          const mesh::DeviceMesh& mesh) {
  const std::int32_t axis = mesh.axis_index(step.axis);
  if (axis < 0)
    return wrong(fmt::format("the mesh has no axis '{}'", step.axis));
  Layout out = layout;
  const std::string& kind = step.kind;
  if (kind == "all_gather") {
    SW_RETURN_IF_ERROR(take_last(out, step.dim, axis, step));
  } else if (kind == "all_reduce") {
    SW_RETURN_IF_ERROR(take_partial(out, axis, step));
  } else if (kind == "reduce_scatter") {
    SW_RETURN_IF_ERROR(take_partial(out, axis, step));
    SW_ASSIGN_OR_RETURN(auto* const axes, dim_of(out, step.dim, kind));
    axes->push_back(axis);
  } else if (kind == "all_to_all") {
    SW_RETURN_IF_ERROR(take_last(out, step.dim, axis, step));
    SW_ASSIGN_OR_RETURN(auto* const axes, dim_of(out, step.to_dim, kind));
    axes->push_back(axis);
  } else if (kind == "slice") {
    SW_RETURN_IF_ERROR(require_free(layout, axis, step));
    SW_ASSIGN_OR_RETURN(auto* const axes, dim_of(out, step.dim, kind));
    axes->push_back(axis);
  } else if (kind == "make_partial") {
    SW_RETURN_IF_ERROR(require_free(layout, axis, step));
    insert_sorted(out.partial, axis);
  } else {
    return wrong(fmt::format("unknown collective '{}'", kind));
  }
  return out;
}

std::vector<std::int64_t> local_sizes(const std::vector<std::int64_t>& shape,
                                      const Layout& layout,
                                      const mesh::DeviceMesh& mesh) {
  std::vector<std::int64_t> out = shape;
  for (std::size_t d = 0; d < out.size(); ++d) {
    for (const std::int32_t axis : layout.dims[d]) {
      const std::int64_t ranks = mesh.axes[static_cast<std::size_t>(axis)].size;
      out[d] = (out[d] + ranks - 1) / ranks;
    }
  }
  return out;
}

std::int64_t held_bytes(const std::vector<std::int64_t>& shape,
                        const Layout& layout, const mesh::DeviceMesh& mesh,
                        std::int64_t element_bytes) {
  std::int64_t bytes = element_bytes;
  for (const std::int64_t size : local_sizes(shape, layout, mesh))
    bytes *= size;
  return bytes;
}

std::vector<std::int64_t> parts(std::int64_t size,
                                const std::vector<std::int64_t>& ranks) {
  std::vector<std::int64_t> out = {size};
  for (const std::int64_t count : ranks) {
    std::vector<std::int64_t> finer;
    for (const std::int64_t whole : out) {
      const std::int64_t chunk = (whole + count - 1) / count;
      for (std::int64_t i = 0; i < count; ++i) {
        finer.push_back(std::clamp<std::int64_t>(whole - i * chunk, 0, chunk));
      }
    }
    out = std::move(finer);
  }
  return out;
}

std::int64_t stated_bytes(const std::string& kind, std::int64_t before,
                          std::int64_t after) {
  if (kind == "slice" || kind == "make_partial") return 0;
  return kind == "all_gather" ? after : before;
}

}  // namespace shardwright::verify::internal
