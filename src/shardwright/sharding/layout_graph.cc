#include "shardwright/sharding/layout_graph.h"

#include <algorithm>
#include <utility>

#include "shardwright/base/check.h"

namespace shardwright::sharding::internal {
namespace {

using mesh::CollectiveKind;

constexpr unsigned kBitsPerAxis = 10;
constexpr unsigned kPlaceBits = 8;

// One step out of `from`, with the layout it leads to.
struct Move {
  CollectiveKind kind;
  std::size_t axis;
  int dim;
  int to_dim;
  ShardingSpec after;
};

void drop_partial(ShardingSpec& spec, std::int32_t axis) {
  std::erase(spec.partial, axis);
}

void add_partial(ShardingSpec& spec, std::int32_t axis) {
  spec.partial.insert(
      std::upper_bound(spec.partial.begin(), spec.partial.end(), axis), axis);
}

void moves_of_split_axis(const ShardingSpec& from, std::size_t dim,
                         std::vector<Move>& moves) {
  const std::int32_t axis = from.dims[dim].back();
  const auto index = static_cast<std::size_t>(axis);
  ShardingSpec gathered = from;
  gathered.dims[dim].pop_back();
  for (std::size_t to = 0; to < from.dims.size(); ++to) {
    if (to == dim) continue;
    ShardingSpec after = gathered;
    after.dims[to].push_back(axis);
    moves.push_back({CollectiveKind::kAllToAll, index, static_cast<int>(dim),
                     static_cast<int>(to), std::move(after)});
  }
  moves.push_back({CollectiveKind::kAllGather, index, static_cast<int>(dim), -1,
                   std::move(gathered)});
}

void moves_of_partial_axis(const ShardingSpec& from, std::int32_t axis,
                           std::vector<Move>& moves) {
  const auto index = static_cast<std::size_t>(axis);
  ShardingSpec reduced = from;
  drop_partial(reduced, axis);
  for (std::size_t dim = 0; dim < from.dims.size(); ++dim) {
    ShardingSpec after = reduced;
    after.dims[dim].push_back(axis);
    moves.push_back({CollectiveKind::kReduceScatter, index,
                     static_cast<int>(dim), -1, std::move(after)});
  }
  moves.push_back(
      {CollectiveKind::kAllReduce, index, -1, -1, std::move(reduced)});
}

void moves_of_replicated_axis(const ShardingSpec& from, std::int32_t axis,
                              std::vector<Move>& moves) {
  const auto index = static_cast<std::size_t>(axis);
  for (std::size_t dim = 0; dim < from.dims.size(); ++dim) {
    ShardingSpec after = from;
    after.dims[dim].push_back(axis);
    moves.push_back({CollectiveKind::kSlice, index, static_cast<int>(dim), -1,
                     std::move(after)});
  }
  ShardingSpec partial = from;
  add_partial(partial, axis);
  moves.push_back(
      {CollectiveKind::kMakePartial, index, -1, -1, std::move(partial)});
}

std::vector<Move> moves_from(const ShardingSpec& from, std::size_t num_axes) {
  std::vector<Move> moves;
  std::vector<bool> free(num_axes, true);
  for (std::size_t dim = 0; dim < from.dims.size(); ++dim) {
    for (const std::int32_t axis : from.dims[dim]) {
      free[static_cast<std::size_t>(axis)] = false;
    }
    if (!from.dims[dim].empty()) moves_of_split_axis(from, dim, moves);
  }
  for (const std::int32_t axis : from.partial) {
    free[static_cast<std::size_t>(axis)] = false;
    moves_of_partial_axis(from, axis, moves);
  }
  for (std::size_t axis = 0; axis < num_axes; ++axis) {
    if (free[axis]) {
      moves_of_replicated_axis(from, static_cast<std::int32_t>(axis), moves);
    }
  }
  return moves;
}

}  // namespace

std::optional<LayoutCode> encode(const ShardingSpec& spec,
                                 std::size_t num_axes) {
  LayoutCode code = 0;
  LayoutCode used = 0;
  const auto put = [&](std::int32_t axis, LayoutCode bits) {
    if (axis < 0 || static_cast<std::size_t>(axis) >= num_axes) return false;
    const LayoutCode flag = LayoutCode{1} << axis;
    if ((used & flag) != 0) return false;
    used |= flag;
    code |= bits << (kBitsPerAxis * static_cast<unsigned>(axis));
    return true;
  };
  for (std::size_t dim = 0; dim < spec.dims.size(); ++dim) {
    for (std::size_t i = 0; i < spec.dims[dim].size(); ++i) {
      const LayoutCode bits = (kPlaceFirstDim + dim) | (i << kPlaceBits);
      if (!put(spec.dims[dim][i], bits)) return std::nullopt;
    }
  }
  for (const std::int32_t axis : spec.partial) {
    if (!put(axis, kPlacePartial)) return std::nullopt;
  }
  return code;
}

LayoutGraph make_layout_graph(std::size_t num_axes, std::size_t rank) {
  LayoutGraph graph;
  const auto index_of = [&](const ShardingSpec& spec) {
    const std::optional<LayoutCode> code = encode(spec, num_axes);
    SW_CHECK(code.has_value(), "a step made a layout that is not valid");
    const auto next = static_cast<std::int32_t>(graph.specs.size());
    const auto [entry, added] = graph.index_of.emplace(*code, next);
    if (added) graph.specs.push_back(spec);
    return entry->second;
  };
  index_of(replicated(rank));
  // Breadth first: `specs` grows while it is read, so no references into it.
  for (std::size_t source = 0; source < graph.specs.size(); ++source) {
    graph.first_step.push_back(static_cast<std::int32_t>(graph.steps.size()));
    const ShardingSpec from = graph.specs[source];
    for (const Move& move : moves_from(from, num_axes)) {
      graph.steps.push_back({move.kind, static_cast<std::int8_t>(move.axis),
                             static_cast<std::int8_t>(move.dim),
                             static_cast<std::int8_t>(move.to_dim),
                             static_cast<std::int32_t>(source),
                             index_of(move.after)});
    }
  }
  graph.first_step.push_back(static_cast<std::int32_t>(graph.steps.size()));
  return graph;
}

}  // namespace shardwright::sharding::internal
