// How elimination (elimination.h) and what builds on it look at a table.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "shardwright/solver/elimination.h"

namespace shardwright::solver::internal {

// One walk over the cells of a bucket. Level d fixes the class of dim d; the
// list at level d holds the signatures that are finite so far.
struct Elimination::Sweep {
  const Elimination& owner;
  const Bucket& bucket;
  std::vector<std::vector<Entry>>& list;
  std::vector<std::int64_t>& base;  // per input: offset of the fixed classes
  std::int64_t work = 0;

  Sweep(Elimination& all, const Bucket& of)
      : owner(all),
        bucket(of),
        list(all.scratch_.list),
        base(all.scratch_.base) {
    const std::vector<std::int64_t>& signature_cost = all.signature_cost_;
    if (list.size() < of.dims.size() + 2) list.resize(of.dims.size() + 2);
    base.assign(of.inputs.size(), 0);
    list[0].clear();
    for (std::int32_t s = 0; s < bucket.num_signatures; ++s) {
      if (signature_cost[s] < kForbidden) {
        list[0].push_back({s, signature_cost[s]});
      }
    }
    extend(0);
  }

  // Adds one input to the entries of `from`, keeps the finite ones in `to`
  // (which may be the same list).
  void add_input(std::int32_t i, const std::vector<Entry>& before,
                 std::vector<Entry>* to) const {
    const Input& input = bucket.inputs[i];
    const std::int64_t* table = owner.table(input.table).data() + base[i];
    const std::int64_t* offset = input.of_signature.data();
    const std::size_t count = before.size();
    if (to->size() < count) to->resize(count);
    const Entry* source = before.data();
    Entry* next = to->data();
    for (std::size_t n = 0; n < count; ++n) {
      const Entry entry = source[n];
      const std::int64_t value = entry.value + table[offset[entry.signature]];
      *next = {entry.signature, value};
      next += value < kForbidden ? 1 : 0;
    }
    to->resize(next - to->data());
  }

  // list[level] -> list[level + 1]: adds the inputs that are now fixed.
  void extend(std::size_t level) {
    const auto& inputs = bucket.inputs_at[level];
    work +=
        static_cast<std::int64_t>(list[level].size() * (inputs.size() + 1)) + 4;
    if (inputs.empty()) {
      list[level + 1] = list[level];
      return;
    }
    add_input(inputs[0], list[level], &list[level + 1]);
    for (std::size_t n = 1; n < inputs.size(); ++n) {
      add_input(inputs[n], list[level + 1], &list[level + 1]);
    }
  }

  // The least value after the inputs of the last level, without a list.
  std::int64_t least(std::size_t level) {
    const auto& inputs = bucket.inputs_at[level];
    work +=
        static_cast<std::int64_t>(list[level].size() * (inputs.size() + 1)) + 4;
    std::int64_t best = kInfinite;
    if (inputs.size() == 1) {
      const Input& input = bucket.inputs[inputs[0]];
      const std::int64_t* table =
          owner.table(input.table).data() + base[inputs[0]];
      const std::int64_t* offset = input.of_signature.data();
      for (const Entry& entry : list[level]) {
        best = std::min(best, entry.value + table[offset[entry.signature]]);
      }
    } else {
      for (const Entry& entry : list[level]) {
        std::int64_t value = entry.value;
        for (const std::int32_t i : inputs) {
          const Input& input = bucket.inputs[i];
          value += owner.table(
              input.table)[base[i] + input.of_signature[entry.signature]];
          if (value >= kForbidden) break;
        }
        best = std::min(best, value);
      }
    }
    return best < kForbidden ? best : kInfinite;
  }

  void shift(std::size_t dim, std::int32_t from, std::int32_t to) {
    for (std::size_t i = 0; i < bucket.inputs.size(); ++i) {
      for (const Side& side : bucket.inputs[i].sides) {
        if (side.dim != static_cast<std::int32_t>(dim)) continue;
        if (from >= 0) base[i] -= side.offset[from];
        if (to >= 0) base[i] += side.offset[to];
      }
    }
  }

  // Calls at_cell(cell) for every cell: with kLeast after the level before the
  // last (the caller asks for least()), otherwise with the cell's list filled.
  template <bool kLeast, typename AtCell>
  void walk(AtCell&& at_cell, std::size_t dim = 0, std::int64_t cell = 0) {
    if (list[dim + 1].empty()) return;
    if (dim == bucket.dims.size()) {
      at_cell(cell);
      return;
    }
    const bool last = dim + 1 == bucket.dims.size();
    const Dim& here = bucket.dims[dim];
    for (std::int32_t c = 0; c < here.num_classes; ++c) {
      shift(dim, c - 1, c);
      if (kLeast && last) {
        at_cell(cell + c * here.stride);
        continue;
      }
      extend(dim + 1);
      walk<kLeast>(at_cell, dim + 1, cell + c * here.stride);
    }
    shift(dim, here.num_classes - 1, -1);
  }
};

}  // namespace shardwright::solver::internal
