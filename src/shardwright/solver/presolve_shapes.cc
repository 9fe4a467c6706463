#include "shardwright/solver/presolve_shapes.h"

#include <algorithm>

namespace shardwright::solver::internal {
namespace {

// Merges equal lines, drops those no choice uses.
void merge_lines(Shape* shape) {
  const std::int32_t width = shape->num_segments;
  auto line = [&](std::int32_t k) { return shape->bytes_of(k); };
  // Lines are hashed once each, choices then compared through them.
  std::vector<std::uint64_t> of_line(shape->num_lines, 1);
  for (std::int32_t i = 0; i < shape->num_lines; ++i) {
    const std::int64_t* bytes = shape->bytes.data() + std::int64_t{i} * width;
    for (std::int32_t s = 0; s < width; ++s) {
      of_line[i] = mix(of_line[i], static_cast<std::uint64_t>(bytes[s]));
    }
  }
  std::vector<std::uint64_t> hashes;
  hashes.reserve(shape->line.size());
  for (const std::int32_t i : shape->line) hashes.push_back(of_line[i]);
  List first;
  List number = number_equal(
      hashes,
      [&](std::int32_t k, std::int32_t l) {
        return shape->line[k] == shape->line[l] ||
               std::equal(line(k), line(k) + width, line(l));
      },
      &first);
  std::vector<std::int64_t> bytes;
  bytes.reserve(first.size() * static_cast<std::size_t>(width));
  for (const std::int32_t k : first) {
    bytes.insert(bytes.end(), line(k), line(k) + width);
  }
  shape->bytes = std::move(bytes);
  shape->line = std::move(number);
  shape->num_lines = static_cast<std::int32_t>(first.size());
}

// The ends at which some line's bytes change.
List ends_with_changes(const Shape& shape) {
  List out;
  const std::int32_t width = shape.num_segments;
  for (std::int32_t e = 0; width > 0 && e <= width; ++e) {
    for (std::int32_t i = 0; i < shape.num_lines; ++i) {
      const std::int64_t* bytes = shape.bytes.data() + std::int64_t{i} * width;
      const std::int64_t before = e == 0 ? 0 : bytes[e - 1];
      const std::int64_t after = e == width ? 0 : bytes[e];
      if (before == after) continue;
      out.push_back(e);
      break;
    }
  }
  return out;
}

}  // namespace

ResizedShape canonical_shape(Shape&& raw) {
  ResizedShape out{std::move(raw), {}};
  Shape& shape = out.shape;
  merge_lines(&shape);
  out.ends = ends_with_changes(shape);
  const auto width =
      static_cast<std::int32_t>(out.ends.empty() ? 0 : out.ends.size() - 1);
  if (width == shape.num_segments) return out;
  std::vector<std::int64_t> bytes;
  bytes.reserve(static_cast<std::size_t>(shape.num_lines) * width);
  for (std::int32_t i = 0; i < shape.num_lines; ++i) {
    const std::int64_t* old =
        shape.bytes.data() + std::int64_t{i} * shape.num_segments;
    for (std::int32_t s = 0; s < width; ++s) bytes.push_back(old[out.ends[s]]);
  }
  shape.bytes = std::move(bytes);
  shape.num_segments = width;
  return out;
}

ResizedShape gather_choices(const Shape& shape, const List& chosen) {
  Shape out;
  out.num_lines = shape.num_lines;
  out.num_segments = shape.num_segments;
  out.bytes = shape.bytes;
  out.cost.reserve(chosen.size());
  out.line.reserve(chosen.size());
  for (const std::int32_t k : chosen) {
    out.cost.push_back(shape.cost[k]);
    out.line.push_back(shape.line[k]);
  }
  return canonical_shape(std::move(out));
}

ResizedShape sum_of_shapes(const Shape& left, const Shape& right,
                           const List& owners) {
  const auto count = static_cast<std::size_t>(left.num_choices());
  Shape out;
  out.cost.resize(count);
  for (std::size_t k = 0; k < count; ++k) {
    out.cost[k] = left.cost[k] + right.cost[k];
  }
  std::vector<std::uint64_t> hashes(count);
  for (std::size_t k = 0; k < count; ++k) {
    hashes[k] = mix(mix(1, static_cast<std::uint64_t>(left.line[k])),
                    static_cast<std::uint64_t>(right.line[k]));
  }
  List first;
  out.line = number_equal(
      hashes,
      [&](std::int32_t k, std::int32_t l) {
        return left.line[k] == left.line[l] && right.line[k] == right.line[l];
      },
      &first);
  out.num_lines = static_cast<std::int32_t>(first.size());
  out.num_segments =
      owners.empty() ? 0 : static_cast<std::int32_t>(owners.size()) - 1;
  out.bytes.reserve(first.size() * static_cast<std::size_t>(out.num_segments));
  for (const std::int32_t k : first) {
    std::int32_t at_left = -1;
    std::int32_t at_right = -1;
    for (std::int32_t s = 0; s < out.num_segments; ++s) {
      at_left += owners[s] & 1;
      at_right += owners[s] >> 1;
      std::int64_t bytes = 0;
      if (at_left >= 0 && at_left < left.num_segments) {
        bytes += left.bytes_of(k)[at_left];
      }
      if (at_right >= 0 && at_right < right.num_segments) {
        bytes += right.bytes_of(k)[at_right];
      }
      out.bytes.push_back(bytes);
    }
  }
  return canonical_shape(std::move(out));
}

ResizedShape keep_segments(const Shape& shape, const List& kept) {
  Shape out;
  out.cost = shape.cost;
  out.line = shape.line;
  out.num_lines = shape.num_lines;
  out.num_segments = static_cast<std::int32_t>(kept.size());
  out.bytes.reserve(kept.size() * static_cast<std::size_t>(shape.num_lines));
  for (std::int32_t i = 0; i < shape.num_lines; ++i) {
    const std::int64_t* old =
        shape.bytes.data() + std::int64_t{i} * shape.num_segments;
    for (const std::int32_t s : kept) out.bytes.push_back(old[s]);
  }
  return canonical_shape(std::move(out));
}

Shape add_costs(const Shape& shape, const std::vector<std::int64_t>& costs) {
  Shape out;
  out.cost = shape.cost;
  out.line = shape.line;
  out.num_lines = shape.num_lines;
  out.num_segments = shape.num_segments;
  out.bytes = shape.bytes;
  out.order = shape.order;  // memory is the same
  for (std::size_t k = 0; k < costs.size(); ++k) {
    if (costs[k] < kInfinite) out.cost[k] += costs[k];
  }
  return out;
}

Outline outline_of(const Shape& shape) {
  const auto width = static_cast<std::size_t>(shape.num_segments);
  Outline out;
  out.most.assign(width, 0);
  if (width == 0) return out;
  out.rises.assign(width + 1, false);
  out.falls.assign(width + 1, false);
  for (std::int32_t i = 0; i < shape.num_lines; ++i) {
    const std::int64_t* bytes = shape.bytes.data() + i * width;
    std::int64_t before = 0;
    for (std::size_t s = 0; s <= width; ++s) {
      const std::int64_t after = s == width ? 0 : bytes[s];
      if (after > before) out.rises[s] = true;
      if (after < before) out.falls[s] = true;
      if (s < width) out.most[s] = std::max(out.most[s], after);
      before = after;
    }
  }
  return out;
}

std::vector<MemoryInterval> normal_intervals(
    const std::vector<MemoryInterval>& intervals) {
  if (intervals.empty()) return {};
  std::vector<std::pair<std::int32_t, std::int64_t>> events;
  for (const MemoryInterval& item : intervals) {
    if (item.lo >= item.hi || item.bytes == 0) continue;
    events.emplace_back(item.lo, item.bytes);
    events.emplace_back(item.hi, -item.bytes);
  }
  std::sort(events.begin(), events.end());
  std::vector<MemoryInterval> out;
  std::int64_t alive = 0;
  for (std::size_t n = 0; n < events.size();) {
    const std::int32_t at = events[n].first;
    const std::int64_t before = alive;
    while (n < events.size() && events[n].first == at) {
      alive += events[n++].second;
    }
    if (alive == before) continue;
    if (!out.empty() && out.back().hi < 0) out.back().hi = at;
    if (alive > 0) out.push_back({at, -1, alive});
  }
  return out;
}

}  // namespace shardwright::solver::internal
