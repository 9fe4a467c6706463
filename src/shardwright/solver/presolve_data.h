// What the presolve rules read: immutable, and one object per content.
//
// Deep models repeat a block many times. Nothing here knows about blocks: a
// node's numbers are kept apart from where it stands (positions, neighbours),
// so equal numbers are one object wherever they come from, and every rule's
// outcome is a function of such objects that is worked out once (catalogue.h).
//
// Contents are canonical: classes and lines are numbered in order of first use,
// equal ones are merged, ends where no choice's memory changes are left out.
// Equal content therefore means equal objects. `id`s are never used twice.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "shardwright/solver/choice_problem.h"

namespace shardwright::solver::internal {

using List = std::vector<std::int32_t>;

// A list of numbers: the choices that stay, the reply to each choice, ...
struct Indices {
  std::int64_t id = 0;
  List values;
};
using IndicesPtr = std::shared_ptr<const Indices>;

// Things in classes and which class is nowhere above which. Item k belongs to
// class class_of[k]; bit i of `below` row j says that class i is nowhere above
// class j (never set for i == j). No two classes are equal everywhere, so this
// is a strict order.
struct Order {
  std::int64_t id = 0;
  List class_of;
  std::int32_t count = 0;
  std::vector<std::uint64_t> below;  // count rows of words() words

  std::size_t words() const {
    return (static_cast<std::size_t>(count) + 63) / 64;
  }
};
using OrderPtr = std::shared_ptr<const Order>;

// A table seen from one end: what the rules ask about it, worked out on demand
// (null: not yet) by the catalogue. One thread works on a problem.
struct TableFacts {
  OrderPtr order;  // of this end's choices, by cost
  // The choices that have a finite partner; no value inside: all of them.
  std::optional<IndicesPtr> possible;
  // The other end's choice as a function of this end's; null when it is none.
  std::optional<IndicesPtr> reply;
  bool one_to_one = false;
};

// ends[0] has the rows at the edge's node a, ends[1] is its transpose.
struct Table {
  std::int64_t id = 0;
  std::shared_ptr<const EdgeTable> ends[2];
  mutable TableFacts facts[2];
  mutable std::optional<bool> separable;
};
using TablePtr = std::shared_ptr<const Table>;

// A node's choices without its place on the axis. The node holds num_segments +
// 1 positions (none without segments); in segment s, between its positions s
// and s + 1, choice k needs bytes[line[k] * num_segments + s].
struct Shape {
  std::int64_t id = 0;
  std::vector<std::int64_t> cost;  // per choice
  List line;                       // per choice
  std::int32_t num_lines = 0;
  std::int32_t num_segments = 0;
  std::vector<std::int64_t> bytes;  // lines x segments
  mutable OrderPtr order;           // of the choices, by memory; on demand

  std::int32_t num_choices() const {
    return static_cast<std::int32_t>(cost.size());
  }
  const std::int64_t* bytes_of(std::int32_t choice) const {
    return bytes.data() + std::int64_t{line[choice]} * num_segments;
  }
};
using ShapePtr = std::shared_ptr<const Shape>;

// What the original nodes merged into a node are set to by each of its choices.
struct Settings {
  std::int64_t id = 0;
  std::int32_t num_members = 0;
  List values;  // choices x members
};
using SettingsPtr = std::shared_ptr<const Settings>;

// What sharing saved (catalogue.h).
struct SharingCounts {
  std::int64_t asked = 0;       // outcomes asked for
  std::int64_t worked_out = 0;  // of them computed, not remembered
  std::int64_t dominance_worked_out = 0;
};

// Numbers things 0, 1, ... in order of first appearance, equal ones alike.
// `first` gets the first thing with each number. hashes[k] must be equal for
// equal things. Expected O(number of things).
template <class Equal>
List number_equal(const std::vector<std::uint64_t>& hashes, Equal equal,
                  List* first) {
  std::size_t size = 4;
  while (size < 2 * hashes.size()) size *= 2;
  List slots(size, -1);
  List number(hashes.size());
  first->clear();
  for (std::size_t k = 0; k < hashes.size(); ++k) {
    const auto at = static_cast<std::int32_t>(k);
    std::size_t slot = hashes[k] & (size - 1);
    while (slots[slot] >= 0) {
      const std::int32_t other = (*first)[slots[slot]];
      if (hashes[other] == hashes[k] && equal(other, at)) break;
      slot = (slot + 1) & (size - 1);
    }
    if (slots[slot] < 0) {
      slots[slot] = static_cast<std::int32_t>(first->size());
      first->push_back(at);
    }
    number[k] = slots[slot];
  }
  return number;
}

inline std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15ULL;
  return hash ^ (hash >> 29);
}

}  // namespace shardwright::solver::internal
