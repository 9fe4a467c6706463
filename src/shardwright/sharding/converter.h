// Converter: the cheapest sequence of one-axis steps between two layouts.
//
// Steps (N = bytes as in mesh::collective_time, local numbers at coordinate 0):
//
//   all_gather      drops the last (innermost) axis of a dim's list
//   reduce_scatter  partial axis -> appended as last axis of a dim
//   all_reduce      partial axis -> replicated
//   all_to_all      last axis of dim i -> last axis of dim j
//   slice           replicated axis -> appended as last axis of a dim; a copy
//   make_partial    replicated axis -> partial; coordinate 0 keeps the value
//
// Only the last axis of a list moves: then a step undoes or does exactly one
// torch.chunk, also for uneven sizes. The time of a step is that of its
// collective plus its local copies at the device's bandwidth: an all_gather on
// a dim other than 0 rearranges its result, a reduce_scatter its input, an
// all_to_all its input when it splits a dim other than 0 and its result when
// it joins one; slice and make_partial write their result.
//
// The path is a shortest path (Dijkstra) over all layouts of the tensor's rank,
// by time, then number of steps, then a fixed order: the same question always
// gets the same answer, and the times obey the triangle inequality. Every
// layout can be reached from every other.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shardwright/base/json.h"
#include "shardwright/base/result.h"
#include "shardwright/base/units.h"
#include "shardwright/mesh/device_mesh.h"
#include "shardwright/sharding/spec.h"

namespace shardwright::sharding {

// Tensors of more dims are not converted: all layouts of a rank are kept, and
// on four axes this many dims already give 10^5 of them.
inline constexpr std::size_t kMaxRank = 16;

struct CollectiveStep {
  mesh::CollectiveKind kind = mesh::CollectiveKind::kAllGather;
  std::int32_t axis = -1;
  std::int32_t dim = -1;     // -1 for all_reduce and make_partial
  std::int32_t to_dim = -1;  // all_to_all only
  ShardingSpec after;
  Bytes bytes;   // N; 0 for slice and make_partial
  Seconds time;  // collective and local copies
};

struct Conversion {
  std::vector<CollectiveStep> steps;  // empty: the layouts are equal
  Seconds time;
  // Largest bytes alive at once: the source (held by the caller throughout),
  // the input and result of the running step and its temporary copies.
  Bytes peak;
};

// The step as plan files have it (docs/formats.md, E):
// {"kind","axis"[,"dim"][,"to_dim"],"after", "bytes"}.
Json to_json(const CollectiveStep& step, const DeviceMesh& mesh);

// Answers are kept: a repeated question costs a hash lookup, and a question
// about a known (source, shape, element size) a walk along its path. One
// Dijkstra answers all targets of a source, O(E log V), V = number of layouts
// (28 for rank 3 on two axes, about 200 on three). Not thread-safe: one
// Converter per thread. Returned pointers live as long as the Converter.
class Converter {
 public:
  // Requires a valid mesh.
  explicit Converter(const DeviceMesh& mesh);
  ~Converter();
  Converter(Converter&&) noexcept;
  Converter& operator=(Converter&&) noexcept;

  // Never null for valid specs of the shape's rank; nullptr when a spec is not
  // valid for the mesh and shape (an axis used twice, wrong rank), or the rank
  // is above kMaxRank.
  const Conversion* find(const ShardingSpec& from, const ShardingSpec& to,
                         const std::vector<std::int64_t>& shape,
                         std::int64_t element_bytes);

  // All pairs at once, row-major: answer[i * to.size() + j] = from[i] -> to[j].
  std::vector<const Conversion*> find_all(
      const std::vector<ShardingSpec>& from,
      const std::vector<ShardingSpec>& to,
      const std::vector<std::int64_t>& shape, std::int64_t element_bytes);

  [[nodiscard]] const DeviceMesh& mesh() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The conversion between two layouts given as text, one line per step, for the
// command line. Errors: kParseError, kInvalidArgument (rank of a spec and of
// the shape differ, bad shape).
Result<std::string> describe_conversion(const std::string& from,
                                        const std::string& to,
                                        const std::vector<std::int64_t>& shape,
                                        const DeviceMesh& mesh,
                                        std::int64_t element_bytes = 4);

}  // namespace shardwright::sharding
