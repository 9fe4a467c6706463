// How the catalogue remembers: hashes and equality of contents, and the two
// templates every function of it goes through. For catalogue*.cc alone.
#pragma once

#include <memory>
#include <utility>

#include "shardwright/solver/catalogue.h"

namespace shardwright::solver::internal {

// Which function a key belongs to, where several share a map.
enum Function : std::int64_t {
  kGather,
  kSum,
  kKeepSegments,
  kWithoutCost,
  kSeparable,
  kSingle,
  kDiagonal,
  kJoin,
};

template <class Numbers>
std::uint64_t hash_all(std::uint64_t hash, const Numbers& numbers) {
  hash = mix(hash, numbers.size());
  for (const auto n : numbers) hash = mix(hash, static_cast<std::uint64_t>(n));
  return hash;
}

inline std::uint64_t hash_of(const EdgeTable& table) {
  std::uint64_t hash = hash_all(1, table.row_class);
  hash = hash_all(hash, table.col_class);
  return hash_all(hash, table.cost);
}
inline bool same(const EdgeTable& left, const EdgeTable& right) {
  return left.num_row_classes == right.num_row_classes &&
         left.num_col_classes == right.num_col_classes &&
         left.row_class == right.row_class &&
         left.col_class == right.col_class && left.cost == right.cost;
}
inline std::size_t size_of(const EdgeTable& table) {
  return table.cost.size() + table.row_class.size() + table.col_class.size();
}

inline std::uint64_t hash_of(const Indices& value) {
  return hash_all(1, value.values);
}
inline bool same(const Indices& left, const Indices& right) {
  return left.values == right.values;
}
inline std::size_t size_of(const Indices& value) { return value.values.size(); }

inline std::uint64_t hash_of(const Settings& value) {
  return hash_all(static_cast<std::uint64_t>(value.num_members), value.values);
}
inline bool same(const Settings& left, const Settings& right) {
  return left.num_members == right.num_members && left.values == right.values;
}
inline std::size_t size_of(const Settings& value) {
  return value.values.size();
}

inline std::uint64_t hash_of(const Table& value) {
  return hash_of(*value.ends[0]);
}
inline bool same(const Table& left, const Table& right) {
  return same(*left.ends[0], *right.ends[0]);
}
inline std::size_t size_of(const Table& value) {
  return 2 * size_of(*value.ends[0]);
}

inline std::uint64_t hash_of(const Shape& value) {
  std::uint64_t hash = hash_all(1, value.cost);
  hash = hash_all(hash, value.line);
  return hash_all(hash, value.bytes);
}
inline bool same(const Shape& left, const Shape& right) {
  return left.num_segments == right.num_segments && left.cost == right.cost &&
         left.line == right.line && left.bytes == right.bytes;
}
inline std::size_t size_of(const Shape& value) {
  return value.bytes.size() + 2 * value.cost.size();
}

inline std::uint64_t hash_of(const Order& value) {
  return hash_all(hash_all(1, value.class_of), value.below);
}
inline bool same(const Order& left, const Order& right) {
  return left.class_of == right.class_of && left.below == right.below;
}
inline std::size_t size_of(const Order& value) {
  return value.below.size() + value.class_of.size();
}

// The remembered outcome, or the computed one.
template <class Map, class Compute>
typename Map::mapped_type Catalogue::remember(Map* map,
                                              typename Map::key_type key,
                                              Compute compute) {
  ++counts_.asked;
  if (share_) {
    const auto found = map->find(key);
    if (found != map->end()) return found->second;
  }
  ++counts_.worked_out;
  auto out = compute();
  if (share_) {
    remembered_ += key.size();
    map->emplace(std::move(key), out);
  }
  return out;
}

template <class T>
std::shared_ptr<const T> Catalogue::intern(Pool<T>* pool, T value) {
  std::uint64_t hash = 0;
  if (share_) {
    hash = hash_of(value);
    const auto [begin, end] = pool->equal_range(hash);
    for (auto it = begin; it != end; ++it) {
      if (same(*it->second, value)) return it->second;
    }
  }
  value.id = ++last_id_;
  budget_->charge(static_cast<std::int64_t>(size_of(value)));
  auto out = std::make_shared<const T>(std::move(value));
  if (share_) {
    remembered_ += size_of(*out);
    pool->emplace(hash, out);
  }
  return out;
}

}  // namespace shardwright::solver::internal
