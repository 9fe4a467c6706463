// Every conversion executed on simulated ranks. What a rank holds under a
// layout is built from torch.chunk's definition; steps work on the local
// arrays alone, as a run does; nothing of the layer's own size arithmetic is
// used.
#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <vector>

#include "shardwright/sharding/converter.h"
#include "shardwright/sharding/testing_layouts.h"

namespace shardwright::sharding {
namespace {

using mesh::CollectiveKind;
using testing_layouts::all_specs;
using testing_layouts::mesh_on;
using Shape = std::vector<std::int64_t>;

struct Array {
  Shape shape;
  std::vector<std::int64_t> data;  // row order
  bool operator==(const Array&) const = default;
};

std::int64_t count(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1},
                         std::multiplies<>());
}

// Rows of a dim: `before` x shape[dim] x `after` elements.
std::int64_t before(const Array& array, std::size_t dim) {
  return count(Shape(array.shape.begin(),
                     array.shape.begin() + static_cast<std::ptrdiff_t>(dim)));
}
std::int64_t after(const Array& array, std::size_t dim) {
  return count(Shape(array.shape.begin() + static_cast<std::ptrdiff_t>(dim) + 1,
                     array.shape.end()));
}

Array narrow(const Array& array, std::size_t dim, std::int64_t begin,
             std::int64_t length) {
  Array part{array.shape, {}};
  part.shape[dim] = length;
  const std::int64_t inner = after(array, dim);
  for (std::int64_t outer = 0; outer < before(array, dim); ++outer) {
    for (std::int64_t row = begin; row < begin + length; ++row) {
      const std::int64_t at = (outer * array.shape[dim] + row) * inner;
      for (std::int64_t i = 0; i < inner; ++i) {
        part.data.push_back(array.data[static_cast<std::size_t>(at + i)]);
      }
    }
  }
  return part;
}

// torch.chunk: parts of ceil(size / parts), the last ones shorter or missing
// (here: empty).
std::vector<Array> torch_chunk(const Array& array, std::int64_t parts,
                               std::size_t dim) {
  const std::int64_t size = array.shape[dim];
  const std::int64_t step = (size + parts - 1) / parts;
  std::vector<Array> chunks;
  std::int64_t begin = 0;
  while (static_cast<std::int64_t>(chunks.size()) < parts) {
    const std::int64_t length = std::min(step, size - begin);
    chunks.push_back(narrow(array, dim, begin, length));
    begin += length;
  }
  return chunks;
}

Array cat(const std::vector<Array>& parts, std::size_t dim) {
  Array whole{parts.front().shape, {}};
  whole.shape[dim] = 0;
  for (const Array& part : parts) {
    for (std::size_t d = 0; d < part.shape.size(); ++d) {
      EXPECT_TRUE(d == dim || part.shape[d] == whole.shape[d]);
    }
    whole.shape[dim] += part.shape[dim];
  }
  for (std::int64_t outer = 0; outer < before(whole, dim); ++outer) {
    for (const Array& part : parts) {
      const std::int64_t width = part.shape[dim] * after(part, dim);
      for (std::int64_t i = 0; i < width; ++i) {
        whole.data.push_back(
            part.data[static_cast<std::size_t>(outer * width + i)]);
      }
    }
  }
  return whole;
}

Array sum(const std::vector<Array>& parts) {
  Array total = parts.front();
  for (std::size_t i = 1; i < parts.size(); ++i) {
    EXPECT_EQ(parts[i].shape, total.shape);
    for (std::size_t k = 0; k < total.data.size(); ++k) {
      total.data[k] += parts[i].data[k];
    }
  }
  return total;
}

Array global_tensor(const Shape& shape) {
  Array array{
      shape, std::vector<std::int64_t>(static_cast<std::size_t>(count(shape)))};
  std::iota(array.data.begin(), array.data.end(), 1);
  return array;
}

// The part of the tensor at a coordinate, by nested chunking.
Array part_of(Array array, const ShardingSpec& spec, const DeviceMesh& mesh,
              const Shape& coordinate) {
  for (std::size_t dim = 0; dim < spec.dims.size(); ++dim) {
    for (const std::int32_t axis : spec.dims[dim]) {
      const auto at = static_cast<std::size_t>(axis);
      array = torch_chunk(array, mesh.axes[at].size,
                          dim)[static_cast<std::size_t>(coordinate[at])];
    }
  }
  return array;
}

// An addend that differs on every coordinate of the partial axes.
std::int64_t addend(std::int64_t value, const Shape& coordinate,
                    const ShardingSpec& spec) {
  std::int64_t mixed = value;
  for (const std::int32_t axis : spec.partial) {
    mixed = mixed * 31 + coordinate[static_cast<std::size_t>(axis)] * 17 + 5;
  }
  return mixed % 1009 - 500;
}

// All ranks that share every coordinate but those on `axes`, in rank order.
std::vector<std::int64_t> peers(const DeviceMesh& mesh, std::int64_t rank,
                                const std::vector<std::int32_t>& axes) {
  const Shape own = mesh::coordinate_of(mesh, rank);
  std::vector<std::int64_t> ranks;
  for (std::int64_t other = 0; other < mesh.num_devices(); ++other) {
    Shape coordinate = mesh::coordinate_of(mesh, other);
    for (const std::int32_t axis : axes) {
      coordinate[static_cast<std::size_t>(axis)] =
          own[static_cast<std::size_t>(axis)];
    }
    if (coordinate == own) ranks.push_back(other);
  }
  return ranks;
}

using Ranks = std::vector<Array>;

// What the ranks hold under a layout; the first peer of the partial axes holds
// the rest, so that the peers add up to the tensor.
Ranks laid_out(const Array& tensor, const ShardingSpec& spec,
               const DeviceMesh& mesh) {
  Ranks ranks;
  for (std::int64_t rank = 0; rank < mesh.num_devices(); ++rank) {
    const Shape coordinate = mesh::coordinate_of(mesh, rank);
    Array part = part_of(tensor, spec, mesh, coordinate);
    if (!spec.partial.empty()) {
      for (auto& value : part.data) value = addend(value, coordinate, spec);
    }
    ranks.push_back(std::move(part));
  }
  if (spec.partial.empty()) return ranks;
  for (std::int64_t rank = 0; rank < mesh.num_devices(); ++rank) {
    const auto group = peers(mesh, rank, spec.partial);
    if (group.front() != rank) continue;
    const Array truth =
        part_of(tensor, spec, mesh, mesh::coordinate_of(mesh, rank));
    Array& first = ranks[static_cast<std::size_t>(rank)];
    first = truth;
    for (std::size_t i = 1; i < group.size(); ++i) {
      for (std::size_t k = 0; k < first.data.size(); ++k) {
        first.data[k] -= ranks[static_cast<std::size_t>(group[i])].data[k];
      }
    }
  }
  return ranks;
}

// True when the ranks hold the tensor under the layout.
bool holds(const Ranks& ranks, const Array& tensor, const ShardingSpec& spec,
           const DeviceMesh& mesh) {
  for (std::int64_t rank = 0; rank < mesh.num_devices(); ++rank) {
    std::vector<Array> addends;
    for (const std::int64_t peer : peers(mesh, rank, spec.partial)) {
      addends.push_back(ranks[static_cast<std::size_t>(peer)]);
    }
    if (sum(addends) !=
        part_of(tensor, spec, mesh, mesh::coordinate_of(mesh, rank))) {
      return false;
    }
  }
  return true;
}

// One rank's result of a step, from what its group holds.
Array result_of(const CollectiveStep& step, const std::vector<Array>& group,
                std::size_t position) {
  const auto dim = static_cast<std::size_t>(step.dim);
  const auto ranks = static_cast<std::int64_t>(group.size());
  switch (step.kind) {
    case CollectiveKind::kAllGather:
      return cat(group, dim);
    case CollectiveKind::kReduceScatter:
      return torch_chunk(sum(group), ranks, dim)[position];
    case CollectiveKind::kAllReduce:
      return sum(group);
    case CollectiveKind::kAllToAll: {
      std::vector<Array> received;
      received.reserve(group.size());
      for (const Array& sender : group) {
        received.push_back(torch_chunk(
            sender, ranks, static_cast<std::size_t>(step.to_dim))[position]);
      }
      return cat(received, dim);
    }
    case CollectiveKind::kSlice:
      return torch_chunk(group[position], ranks, dim)[position];
    case CollectiveKind::kMakePartial: {
      Array kept = group[position];
      if (position != 0) std::fill(kept.data.begin(), kept.data.end(), 0);
      return kept;
    }
  }
  return {};
}

Ranks executed(const CollectiveStep& step, const Ranks& ranks,
               const DeviceMesh& mesh) {
  Ranks results;
  for (std::int64_t rank = 0; rank < mesh.num_devices(); ++rank) {
    std::vector<Array> group;
    std::size_t position = 0;
    for (const std::int64_t peer : peers(mesh, rank, {step.axis})) {
      if (peer == rank) position = group.size();
      group.push_back(ranks[static_cast<std::size_t>(peer)]);
    }
    results.push_back(result_of(step, group, position));
  }
  return results;
}

// N as the plan's format defines it, measured on rank 0's arrays.
std::int64_t measured_bytes(const CollectiveStep& step, const Array& input,
                            const Array& result, std::int64_t element_bytes) {
  switch (step.kind) {
    case CollectiveKind::kAllGather:
      return element_bytes * count(result.shape);
    case CollectiveKind::kSlice:
    case CollectiveKind::kMakePartial:
      return 0;
    default:
      return element_bytes * count(input.shape);
  }
}

void check_all_pairs(const std::string& preset, const Shape& mesh_shape,
                     const Shape& shape) {
  const DeviceMesh mesh = mesh_on(preset, mesh_shape);
  const auto specs =
      all_specs(static_cast<std::int32_t>(mesh_shape.size()), shape.size());
  const Array tensor = global_tensor(shape);
  Converter converter(mesh);
  for (const ShardingSpec& from : specs) {
    const Ranks start = laid_out(tensor, from, mesh);
    ASSERT_TRUE(holds(start, tensor, from, mesh)) << to_string(from, mesh);
    for (const ShardingSpec& to : specs) {
      Ranks ranks = start;
      for (const auto& step : converter.find(from, to, shape, 4)->steps) {
        Ranks next = executed(step, ranks, mesh);
        EXPECT_EQ(step.bytes.value, measured_bytes(step, ranks[0], next[0], 4));
        ranks = std::move(next);
        ASSERT_TRUE(holds(ranks, tensor, step.after, mesh))
            << to_string(from, mesh) << " -> " << to_string(to, mesh) << " at "
            << to_string(step.after, mesh);
      }
      ASSERT_TRUE(holds(ranks, tensor, to, mesh));
    }
  }
}

TEST(SimulatedRanks, EvenSizes) {
  for (const Shape& mesh : {Shape{2}, Shape{4}, Shape{2, 2}, Shape{2, 4}}) {
    for (const Shape& shape : {Shape{8}, Shape{8, 8}, Shape{8, 8, 8}}) {
      check_all_pairs("unit", mesh, shape);
    }
  }
}

TEST(SimulatedRanks, UnevenSizes) {
  for (const Shape& mesh : {Shape{2}, Shape{4}, Shape{2, 2}, Shape{2, 4}}) {
    for (const Shape& shape : {Shape{}, Shape{6}, Shape{13}, Shape{1},
                               Shape{6, 5}, Shape{3, 7, 2}, Shape{0, 3}}) {
      check_all_pairs("unit", mesh, shape);
    }
  }
}

TEST(SimulatedRanks, OtherPricesOtherPaths) {
  check_all_pairs("h100", {2, 4}, {6, 5, 9});
  check_all_pairs("cpu", {2, 4}, {5, 12});
  check_all_pairs("h100", {2, 2, 2}, {6, 11});
  check_all_pairs("unit", {3, 2}, {7, 8});
}

TEST(SimulatedRanks, AWrongStepIsNoticed) {
  const DeviceMesh mesh = mesh_on("unit", {2, 2});
  const Array tensor = global_tensor({6, 5});
  const ShardingSpec from = parse_spec("[a:b, -]", mesh).value();
  const Ranks ranks = laid_out(tensor, from, mesh);
  EXPECT_TRUE(holds(ranks, tensor, from, mesh));
  // Gathering the major axis first interleaves the parts.
  CollectiveStep wrong;
  wrong.kind = CollectiveKind::kAllGather;
  wrong.axis = 0;
  wrong.dim = 0;
  wrong.after = parse_spec("[b, -]", mesh).value();
  EXPECT_FALSE(holds(executed(wrong, ranks, mesh), tensor, wrong.after, mesh));
}

}  // namespace
}  // namespace shardwright::sharding
