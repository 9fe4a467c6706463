// Exact minimum of node and edge costs (no memory), by bucket elimination on
// classes of choices. Planned once per problem; solved for any node costs.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "shardwright/solver/budget.h"
#include "shardwright/solver/choice_problem.h"

namespace shardwright::solver::internal {

// Sums at or above it are infinite; finite ones stay below it in size. Half of
// kInfinite, so that an infinite entry plus negative finite ones stays above.
inline constexpr std::int64_t kForbidden = kInfinite / 2;

// Numbers the choices of all nodes one after the other.
struct FlatIndex {
  std::vector<std::int32_t> first;  // per node, and the total at the end

  explicit FlatIndex(const ChoiceProblem& problem);
  std::int32_t total() const { return first.back(); }
  std::int32_t num_nodes() const {
    return static_cast<std::int32_t>(first.size()) - 1;
  }
  std::int32_t size(std::int32_t node) const {
    return first[node + 1] - first[node];
  }
};

class Elimination {
 public:
  struct Limits {
    std::int64_t cells = std::int64_t{1} << 24;  // of one table
    double work = 1e300;                         // of a sweep, in ticks
  };

  // Edge costs are multiplied by `edge_scale`; 0 keeps only which pairs are
  // infinite.
  Elimination(const ChoiceProblem& problem, std::int64_t edge_scale,
              const Limits& limits);

  // False: the limits do not suffice, and nothing below may be called.
  bool fits() const { return fits_; }
  // Tables filled by the last minimise(); equal parts share them.
  std::int64_t num_filled() const { return num_filled_; }
  std::int64_t num_cells() const { return num_cells_; }
  // Upper estimate of a sweep's work, in ticks: cells times signatures.
  double planned_work() const { return planned_work_; }

  // The least total for the given cost per flat choice (>= kForbidden: not
  // allowed), or kInfinite. Fills one choice per node unless kInfinite.
  // Stops early, with lowest(), when the budget is spent.
  std::int64_t minimise(std::span<const std::int64_t> node_cost,
                        std::vector<std::int32_t>* choice, Budget* budget);

  // After minimise() with the same costs: per flat choice, the least total
  // with that choice taken (kInfinite: none). False when the budget ran out.
  bool marginals(std::span<const std::int64_t> node_cost,
                 std::vector<std::int64_t>* marginal, Budget* budget);

  // After minimise() with the same costs: per bucket and cell, the least total
  // of all that is not below the bucket. False when the budget ran out.
  bool outside_values(std::span<const std::int64_t> node_cost,
                      std::vector<std::vector<std::int64_t>>* outside,
                      Budget* budget);

 private:
  friend class LabelSearch;
  struct Side {  // one further node of a table
    std::int32_t dim = 0;
    std::vector<std::int64_t> offset;  // per class of that dim
  };
  struct Input {  // a table read while a node is eliminated
    std::int32_t table = 0;
    std::int32_t source = -1;  // bucket that wrote it; -1: an edge
    std::int32_t level = -1;   // deepest dim; -1: depends on the node alone
    std::vector<std::int64_t> of_signature;
    std::vector<Side> sides;
  };
  struct Dim {
    std::int32_t node = 0;
    std::int32_t num_classes = 0;
    std::int64_t stride = 0;
    std::vector<std::int32_t> class_of;  // per choice of the node
  };
  struct Bucket {
    std::int32_t node = 0;
    std::int32_t parent = -1;  // bucket that reads the result; -1: a constant
    std::int32_t table = 0;
    std::int32_t num_signatures = 0;
    std::int64_t num_cells = 0;
    std::vector<std::int32_t> signature_of;  // per choice
    std::vector<Dim> dims;
    std::vector<Input> inputs;
    std::vector<std::vector<std::int32_t>> inputs_at;  // [level + 1]
    std::int64_t context = 0;  // first entry in context_
    std::int32_t kind = 0;     // equal kinds do the same with equal inputs
  };
  struct Entry {  // a signature that is finite so far, and its cost
    std::int32_t signature = 0;
    std::int64_t value = 0;
  };
  struct Scratch {  // kept between sweeps, so that nothing is allocated
    std::vector<std::vector<Entry>> list;
    std::vector<std::int64_t> base;
  };
  struct Factor;
  struct Kinds;
  struct Planner;
  struct Sweep;

  void signature_costs(const Bucket& bucket,
                       std::span<const std::int64_t> node_cost);
  std::uint64_t hash_of(const Bucket& bucket) const;
  bool same_work(const Bucket& bucket, std::int32_t done) const;
  // A bucket of this sweep that does the same, -1: none. Else remembers it.
  std::int32_t find_same(std::int32_t id);
  const std::vector<std::int64_t>& table(std::int32_t id) const {
    return tables_[content_[id]];
  }
  bool decode(std::span<const std::int64_t> node_cost,
              std::vector<std::int32_t>* choice);
  // Marginals and outside values; those of a bucket are dropped after use
  // unless `keep`.
  bool walk_backwards(std::span<const std::int64_t> node_cost,
                      std::vector<std::int64_t>* marginal,
                      std::vector<std::vector<std::int64_t>>* outside,
                      bool keep, Budget* budget);

  FlatIndex index_;
  bool fits_ = true;
  std::int64_t num_cells_ = 0;
  double planned_work_ = 0;
  std::vector<Bucket> buckets_;  // in elimination order
  std::vector<std::vector<std::int64_t>> tables_;
  std::vector<std::int32_t> content_;  // per table: the one with its cells
  // Work done in this sweep: signature costs per bucket, buckets by hash.
  std::vector<std::vector<std::int64_t>> done_cost_;
  std::unordered_multimap<std::uint64_t, std::int32_t> done_;
  std::int64_t num_filled_ = 0;
  Scratch scratch_;
  std::vector<std::int64_t> signature_cost_;
  std::vector<std::int32_t> signature_choice_;
  std::vector<std::int32_t> context_;  // chosen choice per dim of each bucket
};

}  // namespace shardwright::solver::internal
