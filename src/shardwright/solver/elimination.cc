// Bucket elimination (Dechter 1999; nonserial dynamic programming, Bertele and
// Brioschi 1972) with two changes for our problems.
//
// Classes. A table never has one line per choice of a node but one per class
// of choices that the table cannot tell apart. Eliminating node v from tables
// f over (v, u1, u2, ..) computes
//
//   g(c1, c2, ..) = min over signatures s of v:
//                     cost(s) + sum_f f(class of s, classes c1, c2, ..)
//
// where a signature is a combination of classes that some choice of v has in
// all those tables, cost(s) is the least cost of such a choice, and ci is a
// class of ui in the common refinement of the tables that contain both. So the
// work is the product of classes: 500 choices that look alike to a neighbour
// cost as much as one. A "region" node with two choices and a hundred
// neighbours stays cheap: its neighbours go first, and their messages about it
// have two lines.
//
// Sparse enumeration. Most entries are infinite. The combinations (c1, c2, ..)
// are walked depth first, and the list of signatures that are still finite is
// carried along and shortened at each level.
//
// Equal parts. The blocks of a deep model give buckets that do the same: equal
// in shape, in the tables they read and in the costs of their signatures. A
// sweep fills one table for all of them, and the order of elimination joins
// neighbours pairwise rather than one after the other, so that what remains of
// equal blocks is equal again. No structure is assumed: buckets are compared.
//
// Nothing is remembered for the way back: once the neighbours' choices are
// known, the best signature is found by looking at all of them once, which
// costs less than one cell of the table.
//
// Where a table would be above the cap, dual_ascent.h takes over. (Splitting
// the bucket instead, mini-buckets of 2^24 cells by Dechter and Rish 2003, gave
// bounds below a quarter of that on the IOPDDL benchmark's B.)
//
// min-marginals come from the same walk done backwards: outside(g) is the
// least cost of everything not below g, and
//   least total with choice k = min over cells of inside + outside.
#include "shardwright/solver/elimination.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "shardwright/base/check.h"
#include "shardwright/solver/elimination_sweep.h"

namespace shardwright::solver::internal {

FlatIndex::FlatIndex(const ChoiceProblem& problem) {
  first.reserve(problem.nodes.size() + 1);
  first.push_back(0);
  for (const Node& node : problem.nodes) {
    first.push_back(first.back() +
                    static_cast<std::int32_t>(node.choices.size()));
  }
}

// A table during planning: which nodes it still depends on.
struct Elimination::Factor {
  struct FactorDim {
    std::int32_t node = 0;
    std::int32_t num_classes = 0;
    std::int64_t stride = 0;
    std::vector<std::int32_t> class_of;
  };
  std::int32_t table = 0;
  std::int32_t source = -1;
  std::vector<FactorDim> dims;

  const FactorDim* find(std::int32_t node) const {
    for (const FactorDim& dim : dims) {
      if (dim.node == node) return &dim;
    }
    return nullptr;
  }
};

namespace {

struct Partition {
  std::vector<std::int32_t> class_of;
  std::int32_t num_classes = 1;
};

// Splits the classes by a second classification; only combinations that occur
// get a number, in order of first appearance.
void refine(Partition* partition, const std::vector<std::int32_t>& by,
            std::int32_t num_by) {
  const std::int64_t size = std::int64_t{partition->num_classes} * num_by;
  std::int32_t count = 0;
  auto renumber = [&](auto&& slot_of) {
    for (std::size_t k = 0; k < by.size(); ++k) {
      std::int32_t& slot =
          slot_of(std::int64_t{partition->class_of[k]} * num_by + by[k]);
      if (slot < 0) slot = count++;
      partition->class_of[k] = slot;
    }
  };
  constexpr std::int64_t kDenseLookup = 1 << 16;
  if (size <= kDenseLookup) {
    std::vector<std::int32_t> slots(size, -1);
    renumber([&](std::int64_t key) -> std::int32_t& { return slots[key]; });
  } else {
    std::map<std::int64_t, std::int32_t> slots;
    renumber([&](std::int64_t key) -> std::int32_t& {
      return slots.try_emplace(key, -1).first->second;
    });
  }
  partition->num_classes = count;
}

// The first choice of every class.
std::vector<std::int32_t> representatives(const Partition& partition) {
  std::vector<std::int32_t> out(partition.num_classes, -1);
  for (std::size_t k = 0; k < partition.class_of.size(); ++k) {
    std::int32_t& slot = out[partition.class_of[k]];
    if (slot < 0) slot = static_cast<std::int32_t>(k);
  }
  return out;
}

constexpr double kHuge = 1e30;

}  // namespace

// Numbers buckets by what they do, and edge tables by their cells.
struct Elimination::Kinds {
  std::map<std::vector<std::int64_t>, std::int32_t> buckets, tables;

  static std::int32_t number(
      std::map<std::vector<std::int64_t>, std::int32_t>* known,
      std::vector<std::int64_t> key) {
    const auto next = static_cast<std::int32_t>(known->size());
    return known->try_emplace(std::move(key), next).first->second;
  }

  std::int32_t of(const Bucket& bucket) {
    std::vector<std::int64_t> key = {bucket.num_signatures};
    for (const Dim& dim : bucket.dims) key.push_back(dim.num_classes);
    for (const Input& input : bucket.inputs) {
      key.push_back(-1);
      key.push_back(input.level);
      key.insert(key.end(), input.of_signature.begin(),
                 input.of_signature.end());
      for (const Side& side : input.sides) {
        key.push_back(-1);
        key.push_back(side.dim);
        key.insert(key.end(), side.offset.begin(), side.offset.end());
      }
    }
    return number(&buckets, std::move(key));
  }
};

struct Elimination::Planner {
  Elimination& out;
  Kinds kinds;
  Limits limits;
  std::vector<Factor> factors;
  std::vector<std::vector<std::int32_t>> factors_of;  // per node, alive ones
  std::vector<bool> alive;
  // Cheap nodes first; of about equally dear ones those with fewer rounds of
  // elimination behind their factors, which keeps equal blocks equal.
  using Place = std::tuple<int, std::int32_t, double, std::int32_t>;
  std::set<Place> queue;
  std::vector<double> score;
  std::vector<std::int32_t> rounds;

  void add_factor(Factor factor) {
    const auto id = static_cast<std::int32_t>(factors.size());
    for (const auto& dim : factor.dims) factors_of[dim.node].push_back(id);
    factors.push_back(std::move(factor));
    alive.push_back(true);
  }

  void forget_factor(std::int32_t id) {
    alive[id] = false;
    for (const auto& dim : factors[id].dims) {
      std::erase(factors_of[dim.node], id);
    }
  }

  void add_edges(const ChoiceProblem& problem, std::int64_t scale) {
    std::map<const EdgeTable*, std::int32_t> known;
    for (const Edge& edge : problem.edges) {
      const EdgeTable& table = *edge.table;
      const auto [found, is_new] = known.try_emplace(&table, -1);
      if (is_new) {
        std::vector<std::int64_t> scaled;
        scaled.reserve(table.cost.size());
        for (const std::int64_t cost : table.cost) {
          scaled.push_back(cost >= kInfinite ? kInfinite : cost * scale);
        }
        found->second = Kinds::number(&kinds.tables, scaled);
        if (found->second == static_cast<std::int32_t>(out.tables_.size())) {
          out.tables_.push_back(std::move(scaled));
        }
      }
      Factor factor;
      factor.table = found->second;
      factor.dims.push_back({edge.a, table.num_row_classes,
                             table.num_col_classes, table.row_class});
      factor.dims.push_back(
          {edge.b, table.num_col_classes, 1, table.col_class});
      add_factor(std::move(factor));
    }
  }

  // Upper estimate of the work of eliminating the node: cells of the result
  // times signatures.
  double estimate(std::int32_t node) const {
    std::vector<std::pair<std::int32_t, double>> sizes;
    double signatures = 1;
    for (const std::int32_t id : factors_of[node]) {
      for (const auto& dim : factors[id].dims) {
        if (dim.node == node) {
          signatures = std::min(signatures * dim.num_classes,
                                double(out.index_.size(node)));
          continue;
        }
        auto found = std::find_if(
            sizes.begin(), sizes.end(),
            [&](const auto& item) { return item.first == dim.node; });
        if (found == sizes.end()) {
          sizes.emplace_back(dim.node, 1.0);
          found = sizes.end() - 1;
        }
        found->second = std::min(found->second * dim.num_classes,
                                 double(out.index_.size(dim.node)));
      }
      // Far beyond any cap: the order among such nodes does not matter yet.
      if (sizes.size() > 48) return kHuge;
    }
    double work = signatures;
    for (const auto& [other, size] : sizes) work = std::min(kHuge, work * size);
    return work;
  }

  Place place_of(std::int32_t node) const {
    constexpr double kAboutEqual = 3;  // powers of two
    const double magnitude = std::log2(std::max(score[node], 1.0));
    return {static_cast<int>(magnitude / kAboutEqual), rounds[node],
            score[node], node};
  }

  void rescore(std::int32_t node, std::int32_t round) {
    queue.erase(place_of(node));
    score[node] = estimate(node);
    rounds[node] = std::max(rounds[node], round);
    queue.insert(place_of(node));
  }

  // Cells of the result when these factors are joined in one bucket.
  double result_cells(const std::vector<std::int32_t>& ids,
                      std::int32_t node) const {
    std::map<std::int32_t, Partition> partitions;
    for (const std::int32_t id : ids) {
      for (const auto& dim : factors[id].dims) {
        if (dim.node == node) continue;
        Partition& partition = partitions[dim.node];
        if (partition.class_of.empty()) {
          partition.class_of.assign(dim.class_of.size(), 0);
        }
        refine(&partition, dim.class_of, dim.num_classes);
      }
    }
    double cells = 1;
    for (const auto& [other, partition] : partitions) {
      cells = std::min(kHuge, cells * partition.num_classes);
    }
    return cells;
  }

  void plan_bucket(std::int32_t node, const std::vector<std::int32_t>& ids) {
    Bucket bucket;
    bucket.node = node;
    Partition signatures{std::vector<std::int32_t>(out.index_.size(node), 0),
                         1};
    std::map<std::int32_t, Partition> partitions;
    for (const std::int32_t id : ids) {
      for (const auto& dim : factors[id].dims) {
        Partition& partition =
            dim.node == node ? signatures : partitions[dim.node];
        if (partition.class_of.empty()) {
          partition.class_of.assign(dim.class_of.size(), 0);
        }
        refine(&partition, dim.class_of, dim.num_classes);
      }
    }
    const std::vector<std::int32_t> signature_choice =
        representatives(signatures);
    bucket.num_signatures = signatures.num_classes;
    bucket.signature_of = signatures.class_of;
    bucket.num_cells = 1;
    std::vector<std::vector<std::int32_t>> dim_choice;
    for (auto& [other, partition] : partitions) {
      dim_choice.push_back(representatives(partition));
      bucket.dims.push_back(
          {other, partition.num_classes, 0, std::move(partition.class_of)});
    }
    for (auto dim = bucket.dims.rbegin(); dim != bucket.dims.rend(); ++dim) {
      dim->stride = bucket.num_cells;
      bucket.num_cells *= dim->num_classes;
    }
    bucket.inputs_at.resize(bucket.dims.size() + 1);
    for (const std::int32_t id : ids) {
      bucket.inputs.push_back(
          make_input(bucket, factors[id], signature_choice, dim_choice));
      bucket.inputs_at[bucket.inputs.back().level + 1].push_back(
          static_cast<std::int32_t>(bucket.inputs.size()) - 1);
    }
    finish_bucket(std::move(bucket));
  }

  static Input make_input(
      const Bucket& bucket, const Factor& factor,
      const std::vector<std::int32_t>& signature_choice,
      const std::vector<std::vector<std::int32_t>>& dim_choice) {
    Input input;
    input.table = factor.table;
    input.source = factor.source;
    for (const auto& dim : factor.dims) {
      if (dim.node == bucket.node) {
        for (const std::int32_t k : signature_choice) {
          input.of_signature.push_back(dim.class_of[k] * dim.stride);
        }
        continue;
      }
      Side side;
      while (bucket.dims[side.dim].node != dim.node) ++side.dim;
      for (const std::int32_t k : dim_choice[side.dim]) {
        side.offset.push_back(dim.class_of[k] * dim.stride);
      }
      input.level = std::max(input.level, side.dim);
      input.sides.push_back(std::move(side));
    }
    return input;
  }

  void finish_bucket(Bucket bucket) {
    const auto id = static_cast<std::int32_t>(out.buckets_.size());
    for (const Input& input : bucket.inputs) {
      if (input.source >= 0) out.buckets_[input.source].parent = id;
    }
    bucket.table = static_cast<std::int32_t>(out.tables_.size());
    bucket.context = static_cast<std::int64_t>(out.context_.size());
    out.context_.resize(out.context_.size() + bucket.dims.size());
    bucket.kind = kinds.of(bucket);
    out.num_cells_ += bucket.num_cells;
    // Equal parts are filled once.
    if (bucket.kind + 1 == static_cast<std::int32_t>(kinds.buckets.size())) {
      out.planned_work_ +=
          double(bucket.num_cells) * double(bucket.num_signatures);
    }
    out.tables_.emplace_back();
    if (!bucket.dims.empty()) {
      Factor message;
      message.table = bucket.table;
      message.source = id;
      for (const Dim& dim : bucket.dims) {
        message.dims.push_back(
            {dim.node, dim.num_classes, dim.stride, dim.class_of});
      }
      add_factor(std::move(message));
    }
    out.buckets_.push_back(std::move(bucket));
  }

  void eliminate(std::int32_t node) {
    queue.erase(place_of(node));
    std::set<std::int32_t> touched;
    const std::vector<std::int32_t> ids = factors_of[node];
    for (const std::int32_t id : ids) {
      for (const auto& dim : factors[id].dims) touched.insert(dim.node);
      forget_factor(id);
    }
    plan_bucket(node, ids);
    for (const std::int32_t id : ids) factors[id] = Factor{};  // memory
    touched.erase(node);
    for (const std::int32_t other : touched) rescore(other, rounds[node] + 1);
  }

  void run() {
    const std::int32_t count = out.index_.num_nodes();
    score.assign(count, 0);
    rounds.assign(count, 0);
    for (std::int32_t i = 0; i < count; ++i) {
      score[i] = estimate(i);
      queue.insert(place_of(i));
    }
    while (!queue.empty() && out.fits_) {
      const std::int32_t node = std::get<3>(*queue.begin());
      const std::vector<std::int32_t>& ids = factors_of[node];
      out.fits_ = out.planned_work_ <= limits.work &&
                  (score[node] <= double(limits.cells) ||
                   result_cells(ids, node) <= double(limits.cells));
      if (out.fits_) eliminate(node);
    }
  }
};

Elimination::Elimination(const ChoiceProblem& problem, std::int64_t edge_scale,
                         const Limits& limits)
    : index_(problem) {
  Planner planner{*this, {}, limits, {}, {}, {}, {}, {}, {}};
  planner.factors_of.resize(problem.nodes.size());
  planner.add_edges(problem, edge_scale);
  planner.run();
  std::int32_t most = 0;
  for (const Bucket& bucket : buckets_) {
    most = std::max(most, bucket.num_signatures);
  }
  signature_cost_.resize(most);
  signature_choice_.resize(most);
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    content_.push_back(static_cast<std::int32_t>(t));
  }
  done_cost_.resize(buckets_.size());
}

void Elimination::signature_costs(const Bucket& bucket,
                                  std::span<const std::int64_t> node_cost) {
  const std::int32_t first = index_.first[bucket.node];
  std::fill_n(signature_cost_.begin(), bucket.num_signatures, kInfinite);
  for (std::size_t k = 0; k < bucket.signature_of.size(); ++k) {
    const std::int64_t cost = node_cost[first + k];
    if (cost >= kForbidden) continue;
    std::int64_t& best = signature_cost_[bucket.signature_of[k]];
    if (cost >= best) continue;
    best = cost;
    signature_choice_[bucket.signature_of[k]] = static_cast<std::int32_t>(k);
  }
}

std::uint64_t Elimination::hash_of(const Bucket& bucket) const {
  std::uint64_t hash = static_cast<std::uint64_t>(bucket.kind) + 1;
  const auto mix = [&](std::uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15ULL;
    hash ^= hash >> 29;
  };
  for (const Input& input : bucket.inputs) {
    mix(static_cast<std::uint64_t>(content_[input.table]));
  }
  for (std::int32_t s = 0; s < bucket.num_signatures; ++s) {
    mix(static_cast<std::uint64_t>(signature_cost_[s]));
  }
  return hash;
}

bool Elimination::same_work(const Bucket& bucket, std::int32_t done) const {
  const Bucket& other = buckets_[done];
  if (bucket.kind != other.kind) return false;
  for (std::size_t i = 0; i < bucket.inputs.size(); ++i) {
    if (content_[bucket.inputs[i].table] != content_[other.inputs[i].table]) {
      return false;
    }
  }
  return std::equal(done_cost_[done].begin(), done_cost_[done].end(),
                    signature_cost_.begin());
}

std::int32_t Elimination::find_same(std::int32_t id) {
  const Bucket& bucket = buckets_[id];
  const std::uint64_t hash = hash_of(bucket);
  const auto [first, last] = done_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    if (same_work(bucket, it->second)) return it->second;
  }
  done_.emplace(hash, id);
  done_cost_[id].assign(signature_cost_.begin(),
                        signature_cost_.begin() + bucket.num_signatures);
  return -1;
}

std::int64_t Elimination::minimise(std::span<const std::int64_t> node_cost,
                                   std::vector<std::int32_t>* choice,
                                   Budget* budget) {
  std::int64_t total = 0;
  done_.clear();
  num_filled_ = 0;
  for (std::size_t id = 0; id < buckets_.size(); ++id) {
    const Bucket& bucket = buckets_[id];
    signature_costs(bucket, node_cost);
    const std::int32_t same = find_same(static_cast<std::int32_t>(id));
    if (same >= 0) {
      content_[bucket.table] = content_[buckets_[same].table];
      budget->charge(static_cast<std::int64_t>(bucket.signature_of.size()));
      if (bucket.dims.empty()) total += table(bucket.table)[0];
      continue;
    }
    ++num_filled_;
    content_[bucket.table] = bucket.table;
    std::vector<std::int64_t>& result = tables_[bucket.table];
    result.assign(bucket.num_cells, kInfinite);
    Sweep sweep(*this, bucket);
    const std::size_t depth = bucket.dims.size();
    sweep.walk<true>([&](std::int64_t cell) {
      if (depth > 0) {
        result[cell] = sweep.least(depth);
        return;
      }
      for (const Entry& entry : sweep.list[1]) {
        result[cell] = std::min(result[cell], entry.value);
      }
    });
    budget->charge(sweep.work + bucket.num_cells +
                   static_cast<std::int64_t>(bucket.signature_of.size()));
    if (budget->spent()) return std::numeric_limits<std::int64_t>::lowest();
    if (!bucket.dims.empty()) continue;
    if (result[0] >= kForbidden) return kInfinite;
    total += result[0];
  }
  return decode(node_cost, choice) ? total : kInfinite;
}

bool Elimination::decode(std::span<const std::int64_t> node_cost,
                         std::vector<std::int32_t>* choice) {
  choice->assign(index_.num_nodes(), 0);
  for (auto bucket = buckets_.rbegin(); bucket != buckets_.rend(); ++bucket) {
    if (bucket->parent >= 0) {
      const Bucket& parent = buckets_[bucket->parent];
      for (std::size_t d = 0; d < bucket->dims.size(); ++d) {
        const std::int32_t node = bucket->dims[d].node;
        if (node == parent.node) continue;  // written by the parent below
        std::size_t same = 0;
        while (parent.dims[same].node != node) ++same;
        context_[bucket->context + d] = context_[parent.context + same];
      }
    }
    signature_costs(*bucket, node_cost);
    std::int64_t best = kInfinite;
    std::int32_t best_choice = -1;
    std::vector<std::int64_t> base(bucket->inputs.size(), 0);
    for (std::size_t i = 0; i < bucket->inputs.size(); ++i) {
      for (const Side& side : bucket->inputs[i].sides) {
        const std::int32_t k = context_[bucket->context + side.dim];
        base[i] += side.offset[bucket->dims[side.dim].class_of[k]];
      }
    }
    for (std::int32_t s = 0; s < bucket->num_signatures; ++s) {
      std::int64_t value = signature_cost_[s];
      for (std::size_t i = 0; i < base.size() && value < kForbidden; ++i) {
        const Input& input = bucket->inputs[i];
        value += table(input.table)[base[i] + input.of_signature[s]];
      }
      if (value >= kForbidden || value >= best) continue;
      best = value;
      best_choice = signature_choice_[s];
    }
    if (best_choice < 0) return false;
    (*choice)[bucket->node] = best_choice;
    for (const Input& input : bucket->inputs) {
      if (input.source < 0) continue;
      const Bucket& child = buckets_[input.source];
      for (std::size_t d = 0; d < child.dims.size(); ++d) {
        if (child.dims[d].node == bucket->node) {
          context_[child.context + d] = best_choice;
        }
      }
    }
  }
  return true;
}

bool Elimination::marginals(std::span<const std::int64_t> node_cost,
                            std::vector<std::int64_t>* marginal,
                            Budget* budget) {
  std::vector<std::vector<std::int64_t>> outside;
  return walk_backwards(node_cost, marginal, &outside, false, budget);
}

bool Elimination::outside_values(
    std::span<const std::int64_t> node_cost,
    std::vector<std::vector<std::int64_t>>* outside, Budget* budget) {
  std::vector<std::int64_t> marginal;
  return walk_backwards(node_cost, &marginal, outside, true, budget);
}

bool Elimination::walk_backwards(std::span<const std::int64_t> node_cost,
                                 std::vector<std::int64_t>* marginal,
                                 std::vector<std::vector<std::int64_t>>* kept,
                                 bool keep, Budget* budget) {
  marginal->assign(index_.total(), kInfinite);
  std::vector<std::vector<std::int64_t>>& outside = *kept;
  outside.assign(buckets_.size(), {});
  std::int64_t constants = 0;
  for (const Bucket& bucket : buckets_) {
    if (bucket.dims.empty()) constants += table(bucket.table)[0];
  }
  std::vector<std::int64_t> best;
  for (auto id = static_cast<std::int32_t>(buckets_.size()) - 1; id >= 0;
       --id) {
    const Bucket& bucket = buckets_[id];
    for (const Input& input : bucket.inputs) {
      if (input.source < 0) continue;
      outside[input.source].assign(buckets_[input.source].num_cells, kInfinite);
    }
    if (bucket.dims.empty()) {
      outside[id].assign(1, constants - table(bucket.table)[0]);
    }
    signature_costs(bucket, node_cost);
    best.assign(bucket.num_signatures, kInfinite);
    Sweep sweep(*this, bucket);
    const std::size_t depth = bucket.dims.size();
    sweep.walk<false>([&](std::int64_t cell) {
      const std::int64_t rest = outside[id][cell];
      if (rest >= kForbidden) return;
      for (const Entry& entry : sweep.list[depth + 1]) {
        const std::int64_t value = entry.value + rest;
        best[entry.signature] = std::min(best[entry.signature], value);
        for (std::size_t i = 0; i < bucket.inputs.size(); ++i) {
          const Input& input = bucket.inputs[i];
          if (input.source < 0) continue;
          const std::int64_t at =
              sweep.base[i] + input.of_signature[entry.signature];
          std::int64_t& slot = outside[input.source][at];
          slot = std::min(slot, value - table(input.table)[at]);
        }
      }
    });
    if (!keep) outside[id] = {};
    budget->charge(sweep.work * 2 + bucket.num_cells);
    if (budget->spent()) return false;
    const std::int32_t first = index_.first[bucket.node];
    for (std::size_t k = 0; k < bucket.signature_of.size(); ++k) {
      const std::int32_t s = bucket.signature_of[k];
      if (node_cost[first + k] >= kForbidden || best[s] >= kForbidden) continue;
      (*marginal)[first + k] =
          best[s] - signature_cost_[s] + node_cost[first + k];
    }
  }
  return true;
}

}  // namespace shardwright::solver::internal
