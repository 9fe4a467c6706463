#include "shardwright/sharding/converter.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "shardwright/base/check.h"
#include "shardwright/sharding/layout_graph.h"

namespace shardwright::sharding {
namespace {

using internal::LayoutGraph;
using internal::LayoutStep;
using mesh::CollectiveKind;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Shortest paths from one layout to all others of a shape.
struct SourcePaths {
  std::vector<double> time;
  std::vector<std::int32_t> last_step;  // into LayoutGraph::steps; -1: source
  std::vector<std::unique_ptr<Conversion>> answers;  // made when asked for
};

// What depends on sizes: local bytes per layout, time per step.
struct ShapePaths {
  const LayoutGraph* graph = nullptr;
  std::vector<std::int64_t> shape;
  std::int64_t element_bytes = 1;
  std::vector<std::int64_t> bytes;
  std::vector<double> step_time;
  std::vector<std::unique_ptr<SourcePaths>> sources;
};

struct ShapeKey {
  std::vector<std::int64_t> shape;
  std::int64_t element_bytes;
  bool operator==(const ShapeKey&) const = default;
};

struct ShapeKeyHash {
  std::size_t operator()(const ShapeKey& key) const {
    std::uint64_t hash = static_cast<std::uint64_t>(key.element_bytes);
    for (const std::int64_t size : key.shape) {
      hash = (hash ^ static_cast<std::uint64_t>(size)) * 0x9E3779B97F4A7C15ULL;
      hash ^= hash >> 29;
    }
    return static_cast<std::size_t>(hash);
  }
};

// N of mesh::collective_time, at coordinate 0.
std::int64_t moved_bytes(const ShapePaths& paths, const LayoutStep& step) {
  switch (step.kind) {
    case CollectiveKind::kAllGather:
      return paths.bytes[static_cast<std::size_t>(step.target)];
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kAllToAll:
      return paths.bytes[static_cast<std::size_t>(step.source)];
    case CollectiveKind::kSlice:
    case CollectiveKind::kMakePartial:
      return 0;
  }
  return 0;
}

// Bytes a step copies locally: packing, unpacking, cutting out.
std::int64_t copied_bytes(const ShapePaths& paths, const LayoutStep& step) {
  const std::int64_t in = paths.bytes[static_cast<std::size_t>(step.source)];
  const std::int64_t out = paths.bytes[static_cast<std::size_t>(step.target)];
  switch (step.kind) {
    case CollectiveKind::kAllGather:
      return step.dim != 0 ? out : 0;
    case CollectiveKind::kReduceScatter:
      return step.dim != 0 ? in : 0;
    case CollectiveKind::kAllReduce:
      return 0;
    case CollectiveKind::kAllToAll:
      return (step.to_dim != 0 ? in : 0) + (step.dim != 0 ? out : 0);
    case CollectiveKind::kSlice:
    case CollectiveKind::kMakePartial:
      return out;
  }
  return 0;
}

// All blocks of an all_to_all, each padded to the largest: the input's extent
// of `dim` on every rank by the result's extent of `to_dim`.
std::int64_t exchanged_bytes(const ShapePaths& paths, const LayoutStep& step,
                             const DeviceMesh& mesh) {
  const auto local = [&](std::int32_t layout) {
    return local_shape(paths.shape,
                       paths.graph->specs[static_cast<std::size_t>(layout)],
                       mesh);
  };
  std::vector<std::int64_t> block = local(step.source);
  const auto to_dim = static_cast<std::uint8_t>(step.to_dim);
  block[to_dim] = local(step.target)[to_dim];
  std::int64_t bytes =
      paths.element_bytes * mesh.axes[static_cast<std::size_t>(step.axis)].size;
  for (const std::int64_t extent : block) bytes *= extent;
  return bytes;
}

// Bytes a step holds beside its input at its worst moment: the result and
// packed copies. Uneven parts are padded to the largest one, which needs a
// packed copy on dim 0 too.
std::int64_t working_bytes(const ShapePaths& paths, const LayoutStep& step,
                           const DeviceMesh& mesh) {
  const std::int64_t in = paths.bytes[static_cast<std::size_t>(step.source)];
  const std::int64_t out = paths.bytes[static_cast<std::size_t>(step.target)];
  const std::int64_t ranks =
      mesh.axes[static_cast<std::size_t>(step.axis)].size;
  const auto packed = [&step](std::int64_t padded, std::int64_t plain) {
    return step.dim != 0 || padded != plain ? padded : 0;
  };
  switch (step.kind) {
    case CollectiveKind::kAllGather:
      return out + packed(in * ranks, out);
    case CollectiveKind::kReduceScatter:
      return out + packed(out * ranks, in);
    case CollectiveKind::kAllToAll: {
      const std::int64_t blocks = exchanged_bytes(paths, step, mesh);
      const bool packs = step.to_dim != 0 || blocks != in;
      const bool unpacks = step.dim != 0 || blocks != out;
      // Packed input and received blocks, then received blocks and result.
      if (!unpacks) return out + (packs ? blocks : 0);
      return blocks + std::max(packs ? blocks : 0, out);
    }
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kSlice:
    case CollectiveKind::kMakePartial:
      return out;
  }
  return out;
}

// Dijkstra from one layout; label = (time, number of steps), ties in favour of
// the label found first, and layouts leave the heap by (label, index): a fixed
// order, so a fixed answer.
SourcePaths shortest_paths(const ShapePaths& paths, std::int32_t source) {
  const LayoutGraph& graph = *paths.graph;
  const std::size_t count = graph.num_layouts();
  SourcePaths found;
  found.time.assign(count, kInfinity);
  found.last_step.assign(count, -1);
  found.answers.resize(count);
  std::vector<std::int32_t> length(count, 0);
  std::vector<bool> done(count, false);
  using Label = std::tuple<double, std::int32_t, std::int32_t>;
  std::vector<Label> heap;
  found.time[static_cast<std::size_t>(source)] = 0.0;
  heap.reserve(count);
  heap.emplace_back(0.0, 0, source);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const auto [time, steps, index] = heap.back();
    heap.pop_back();
    const auto at = static_cast<std::size_t>(index);
    if (done[at]) continue;
    done[at] = true;
    for (std::int32_t s = graph.first_step[at]; s < graph.first_step[at + 1];
         ++s) {
      const auto next = static_cast<std::size_t>(
          graph.steps[static_cast<std::size_t>(s)].target);
      const double reached =
          time + paths.step_time[static_cast<std::size_t>(s)];
      if (done[next] || std::tie(reached, steps) >=
                            std::tuple(found.time[next], length[next] - 1)) {
        continue;
      }
      found.time[next] = reached;
      length[next] = steps + 1;
      found.last_step[next] = s;
      heap.emplace_back(reached, steps + 1, static_cast<std::int32_t>(next));
      std::push_heap(heap.begin(), heap.end(), std::greater<>());
    }
  }
  return found;
}

CollectiveStep described(const ShapePaths& paths, std::int32_t step_index) {
  const auto index = static_cast<std::size_t>(step_index);
  const LayoutStep& step = paths.graph->steps[index];
  return {step.kind,
          step.axis,
          step.dim,
          step.to_dim,
          paths.graph->specs[static_cast<std::size_t>(step.target)],
          Bytes(moved_bytes(paths, step)),
          Seconds(paths.step_time[index])};
}

// Walks back from the target; see Conversion::peak for what it counts.
Conversion conversion_to(const ShapePaths& paths, const SourcePaths& found,
                         std::int32_t source, std::int32_t target,
                         const DeviceMesh& mesh) {
  std::vector<std::int32_t> walk;
  for (std::int32_t at = target; at != source;) {
    const std::int32_t step = found.last_step[static_cast<std::size_t>(at)];
    walk.push_back(step);
    at = paths.graph->steps[static_cast<std::size_t>(step)].source;
  }
  std::reverse(walk.begin(), walk.end());
  Conversion conversion;
  conversion.time = Seconds(found.time[static_cast<std::size_t>(target)]);
  const std::int64_t held = paths.bytes[static_cast<std::size_t>(source)];
  std::int64_t peak = held;
  for (const std::int32_t index : walk) {
    const LayoutStep& step =
        paths.graph->steps[static_cast<std::size_t>(index)];
    const std::int64_t input =
        step.source == source
            ? 0
            : paths.bytes[static_cast<std::size_t>(step.source)];
    peak = std::max(peak, held + input + working_bytes(paths, step, mesh));
    conversion.steps.push_back(described(paths, index));
  }
  conversion.peak = Bytes(peak);
  return conversion;
}

}  // namespace

struct Converter::State {
  DeviceMesh mesh;
  double copy_seconds_per_byte = 0.0;
  std::map<std::size_t, LayoutGraph> graphs;  // by tensor rank
  std::unordered_map<ShapeKey, std::unique_ptr<ShapePaths>, ShapeKeyHash>
      shapes;

  const LayoutGraph& graph_of(std::size_t rank) {
    const auto found = graphs.find(rank);
    if (found != graphs.end()) return found->second;
    return graphs
        .emplace(rank, internal::make_layout_graph(mesh.axes.size(), rank))
        .first->second;
  }

  // local_bytes at coordinate 0, without its temporary vectors: this runs for
  // every layout of every shape.
  [[nodiscard]] std::int64_t largest_part(const ShapePaths& paths,
                                          const ShardingSpec& spec) const {
    std::int64_t bytes = paths.element_bytes;
    for (std::size_t dim = 0; dim < spec.dims.size(); ++dim) {
      LocalRange range{0, paths.shape[dim]};
      for (const std::int32_t axis : spec.dims[dim]) {
        range = chunk(range, mesh.axes[static_cast<std::size_t>(axis)].size, 0);
      }
      bytes *= range.size;
    }
    return bytes;
  }

  ShapePaths& paths_of(const std::vector<std::int64_t>& shape,
                       std::int64_t element_bytes) {
    auto& paths = shapes[ShapeKey{shape, element_bytes}];
    if (paths != nullptr) return *paths;
    paths = std::make_unique<ShapePaths>();
    paths->graph = &graph_of(shape.size());
    paths->shape = shape;
    paths->element_bytes = element_bytes;
    for (const ShardingSpec& spec : paths->graph->specs) {
      paths->bytes.push_back(largest_part(*paths, spec));
    }
    paths->step_time.reserve(paths->graph->steps.size());
    for (const LayoutStep& step : paths->graph->steps) {
      const Seconds moved = mesh::collective_time(
          step.kind, mesh.axes[static_cast<std::size_t>(step.axis)],
          Bytes(moved_bytes(*paths, step)));
      const double copied = copy_seconds_per_byte *
                            static_cast<double>(copied_bytes(*paths, step));
      paths->step_time.push_back(moved.value + copied);
    }
    paths->sources.resize(paths->graph->num_layouts());
    return *paths;
  }

  // Index of a layout in the graph of the shape's rank; -1: no valid layout.
  std::int32_t layout_of(const ShapePaths& paths,
                         const ShardingSpec& spec) const {
    if (spec.dims.size() != paths.shape.size()) return -1;
    const auto code = internal::encode(spec, mesh.axes.size());
    return code ? paths.graph->index_of.at(*code) : -1;
  }

  const Conversion* answer(ShapePaths& paths, std::int32_t from,
                           std::int32_t to) {
    if (from < 0 || to < 0) return nullptr;
    auto& source = paths.sources[static_cast<std::size_t>(from)];
    if (source == nullptr) {
      source = std::make_unique<SourcePaths>(shortest_paths(paths, from));
    }
    auto& kept = source->answers[static_cast<std::size_t>(to)];
    if (kept == nullptr) {
      kept = std::make_unique<Conversion>(
          conversion_to(paths, *source, from, to, mesh));
    }
    return kept.get();
  }
};

Converter::Converter(const DeviceMesh& mesh)
    : state_(std::make_unique<State>()) {
  const Result<bool> valid = mesh::validate(mesh);
  SW_CHECK(valid.has_value(),
           "converter on a bad mesh: " + valid.error().message);
  state_->mesh = mesh;
  state_->copy_seconds_per_byte = mesh::copy_time(mesh.device, Bytes(1)).value;
}

Converter::~Converter() = default;
Converter::Converter(Converter&&) noexcept = default;
Converter& Converter::operator=(Converter&&) noexcept = default;

const DeviceMesh& Converter::mesh() const { return state_->mesh; }

const Conversion* Converter::find(const ShardingSpec& from,
                                  const ShardingSpec& to,
                                  const std::vector<std::int64_t>& shape,
                                  std::int64_t element_bytes) {
  if (shape.size() > kMaxRank) return nullptr;
  ShapePaths& paths = state_->paths_of(shape, element_bytes);
  return state_->answer(paths, state_->layout_of(paths, from),
                        state_->layout_of(paths, to));
}

std::vector<const Conversion*> Converter::find_all(
    const std::vector<ShardingSpec>& from, const std::vector<ShardingSpec>& to,
    const std::vector<std::int64_t>& shape, std::int64_t element_bytes) {
  std::vector<const Conversion*> answers(from.size() * to.size(), nullptr);
  if (shape.size() > kMaxRank) return answers;
  ShapePaths& paths = state_->paths_of(shape, element_bytes);
  std::vector<std::int32_t> targets;
  targets.reserve(to.size());
  for (const ShardingSpec& spec : to) {
    targets.push_back(state_->layout_of(paths, spec));
  }
  for (std::size_t i = 0; i < from.size(); ++i) {
    const std::int32_t source = state_->layout_of(paths, from[i]);
    for (std::size_t j = 0; j < targets.size(); ++j) {
      answers[i * to.size() + j] = state_->answer(paths, source, targets[j]);
    }
  }
  return answers;
}

}  // namespace shardwright::sharding
