// One object per content, one computation per outcome.
//
// Every function here is pure: its result depends on the contents of its
// arguments alone. It is remembered by the arguments' ids, and results of equal
// content are the same object, so what was done to one block of a deep model
// costs a look-up in the next. Correctness never rests on that: with sharing
// off everything is worked out each time, and when too much is remembered, all
// of it is forgotten.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "shardwright/solver/budget.h"
#include "shardwright/solver/presolve_data.h"
#include "shardwright/solver/presolve_shapes.h"

namespace shardwright::solver::internal {

// Numbers (8 bytes or less each): half a gigabyte or so.
inline constexpr std::size_t kMostRemembered = std::size_t{1} << 26;

class Catalogue {
 public:
  // `share` false: nothing is remembered, equal contents are separate objects.
  Catalogue(bool share, Budget* budget,
            std::size_t most_remembered = kMostRemembered)
      : share_(share), budget_(budget), most_remembered_(most_remembered) {}
  Catalogue(const Catalogue&) = delete;
  Catalogue& operator=(const Catalogue&) = delete;

  // A shape and which of the ends it was made from are left (null: all).
  struct Resized {
    ShapePtr shape;
    IndicesPtr ends;
  };
  // A shape and the choices whose added cost was finite (null: all).
  struct Costed {
    ShapePtr shape;
    IndicesPtr finite;
  };

  IndicesPtr indices(List values);
  SettingsPtr settings(std::int32_t num_members, List values);

  // Tables of the problem as given, which must outlive the catalogue.
  TablePtr table(const EdgeTable* given);
  // A node's choices in numbers, one after the other: cost, number of memory
  // intervals, and for each its first segment, last segment + 1, bytes.
  Resized shape(const std::vector<std::int64_t>& numbers,
                std::int32_t num_segments);

  // Lines and segments in any form.
  Resized shape(Shape&& raw);

  // Choices at end `end` (0: rows) of the table.
  TablePtr gather(const TablePtr& table, int end, const IndicesPtr& chosen);
  // `flipped`: the second table's ends are the other way round.
  TablePtr sum(const TablePtr& left, const TablePtr& right, bool flipped);
  bool separable(const TablePtr& table);
  IndicesPtr possible(const TablePtr& table, int end);  // null: all
  IndicesPtr reply(const TablePtr& table, int end, bool* one_to_one);
  OrderPtr order(const TablePtr& table, int end);

  SettingsPtr gather(const SettingsPtr& settings, const IndicesPtr& chosen);
  SettingsPtr join(const SettingsPtr& left, const SettingsPtr& right);

  Resized gather(const ShapePtr& shape, const IndicesPtr& chosen);
  Resized sum(const ShapePtr& left, const ShapePtr& right,
              const IndicesPtr& owners);
  Resized keep_segments(const ShapePtr& shape, const IndicesPtr& kept);
  ShapePtr without_cost(const ShapePtr& shape);
  // The node's part of a separable table: r[k, 0], at end 1 less r[0, 0].
  ShapePtr add_separable(const ShapePtr& shape, const TablePtr& table, int end);
  // The other end has a single choice.
  Costed add_single(const ShapePtr& shape, const TablePtr& table, int end);
  // Both ends of the table are this node: r[k, k].
  Costed add_diagonal(const ShapePtr& shape, const TablePtr& table);
  const Outline& outline(const ShapePtr& shape);

  // The choices left when dominated ones go (null: all); one (table, end) per
  // edge of the node.
  using TableEnd = std::pair<TablePtr, int>;
  IndicesPtr undominated(const ShapePtr& shape,
                         const std::vector<TableEnd>& edges);
  // For a leaf at end `end` of its one edge: the best reply to each choice of
  // the neighbour, best in cost and memory alike; null when there is none.
  IndicesPtr leaf_reply(const ShapePtr& leaf, const TablePtr& table, int end);

  const SharingCounts& counts() const { return counts_; }
  // Between rules: forgets everything when too much is remembered.
  void trim();

 private:
  using Key = std::array<std::int64_t, 4>;
  struct KeyHash {
    template <class Numbers>
    std::size_t operator()(const Numbers& numbers) const {
      std::uint64_t hash = 1;
      for (const std::int64_t n : numbers) {
        hash = mix(hash, static_cast<std::uint64_t>(n));
      }
      return hash;
    }
  };
  template <class Value>
  using Memo = std::unordered_map<Key, Value, KeyHash>;
  using LongKey = std::vector<std::int64_t>;
  template <class Value>
  using LongMemo = std::unordered_map<LongKey, Value, KeyHash>;
  template <class T>
  using Pool = std::unordered_multimap<std::uint64_t, std::shared_ptr<const T>>;

  template <class Map, class Compute>
  typename Map::mapped_type remember(Map* map, typename Map::key_type key,
                                     Compute compute);
  template <class T>
  std::shared_ptr<const T> intern(Pool<T>* pool, T value);
  TablePtr intern_table(int end, std::shared_ptr<const EdgeTable> side);
  Resized intern_resized(ResizedShape&& resized, std::size_t ends_before);
  Costed intern_costed(const Shape& shape, std::vector<std::int64_t> costs);
  OrderPtr order(const ShapePtr& shape);

  bool share_;
  Budget* budget_;
  std::size_t most_remembered_;
  SharingCounts counts_;
  std::int64_t last_id_ = 0;
  std::size_t remembered_ = 0;  // numbers, roughly

  Pool<Indices> all_indices_;
  Pool<Settings> all_settings_;
  Pool<Table> all_tables_;
  Pool<Shape> all_shapes_;
  Pool<Order> all_orders_;
  std::unordered_multimap<std::uint64_t, std::pair<const EdgeTable*, TablePtr>>
      given_tables_;
  std::unordered_map<const EdgeTable*, TablePtr> given_pointers_;
  LongMemo<Resized> given_shapes_;
  Memo<TablePtr> tables_;
  Memo<SettingsPtr> settings_;
  Memo<Resized> resized_;
  Memo<ShapePtr> shapes_;
  Memo<Costed> costed_;
  Memo<Outline> outlines_;
  Memo<IndicesPtr> replies_;
  LongMemo<IndicesPtr> undominated_;
  Outline last_outline_;
};

}  // namespace shardwright::solver::internal
