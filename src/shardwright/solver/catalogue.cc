#include "shardwright/solver/catalogue.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "shardwright/solver/presolve_dominance.h"
#include "shardwright/solver/presolve_tables.h"

namespace shardwright::solver::internal {
namespace {

// Numbers (8 bytes or less each) remembered before all is forgotten.
constexpr std::size_t kMostRemembered = std::size_t{1} << 27;

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

std::uint64_t hash_of(const EdgeTable& table) {
  std::uint64_t hash = hash_all(1, table.row_class);
  hash = hash_all(hash, table.col_class);
  return hash_all(hash, table.cost);
}
bool same(const EdgeTable& left, const EdgeTable& right) {
  return left.num_row_classes == right.num_row_classes &&
         left.num_col_classes == right.num_col_classes &&
         left.row_class == right.row_class &&
         left.col_class == right.col_class && left.cost == right.cost;
}
std::size_t size_of(const EdgeTable& table) {
  return table.cost.size() + table.row_class.size() + table.col_class.size();
}

std::uint64_t hash_of(const Indices& value) {
  return hash_all(1, value.values);
}
bool same(const Indices& left, const Indices& right) {
  return left.values == right.values;
}
std::size_t size_of(const Indices& value) { return value.values.size(); }

std::uint64_t hash_of(const Settings& value) {
  return hash_all(static_cast<std::uint64_t>(value.num_members), value.values);
}
bool same(const Settings& left, const Settings& right) {
  return left.num_members == right.num_members && left.values == right.values;
}
std::size_t size_of(const Settings& value) { return value.values.size(); }

std::uint64_t hash_of(const Table& value) { return hash_of(*value.ends[0]); }
bool same(const Table& left, const Table& right) {
  return same(*left.ends[0], *right.ends[0]);
}
std::size_t size_of(const Table& value) { return 2 * size_of(*value.ends[0]); }

std::uint64_t hash_of(const Shape& value) {
  std::uint64_t hash = hash_all(1, value.cost);
  hash = hash_all(hash, value.line);
  return hash_all(hash, value.bytes);
}
bool same(const Shape& left, const Shape& right) {
  return left.num_segments == right.num_segments && left.cost == right.cost &&
         left.line == right.line && left.bytes == right.bytes;
}
std::size_t size_of(const Shape& value) {
  return value.bytes.size() + 2 * value.cost.size();
}

std::uint64_t hash_of(const Order& value) {
  return hash_all(hash_all(1, value.class_of), value.below);
}
bool same(const Order& left, const Order& right) {
  return left.class_of == right.class_of && left.below == right.below;
}
std::size_t size_of(const Order& value) {
  return value.below.size() + value.class_of.size();
}

}  // namespace

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
std::shared_ptr<const T> Catalogue::intern(Pool<T>* pool, T&& value) {
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

IndicesPtr Catalogue::indices(List values) {
  return intern(&all_indices_, Indices{0, std::move(values)});
}

SettingsPtr Catalogue::settings(std::int32_t num_members, List values) {
  return intern(&all_settings_, Settings{0, num_members, std::move(values)});
}

TablePtr Catalogue::intern_table(int end,
                                 std::shared_ptr<const EdgeTable> side) {
  Table table;
  table.ends[1 - end] = transposed(*side);
  table.ends[end] = std::move(side);
  return intern(&all_tables_, std::move(table));
}

Catalogue::Resized Catalogue::intern_resized(ResizedShape&& resized,
                                             std::size_t ends_before) {
  Resized out;
  out.shape = intern(&all_shapes_, std::move(resized.shape));
  if (resized.ends.size() != ends_before) {
    out.ends = indices(std::move(resized.ends));
  }
  return out;
}

TablePtr Catalogue::table(const EdgeTable* given) {
  auto make = [&] { return intern_table(0, canonical_table(*given)); };
  if (!share_) return make();
  const auto [by_pointer, is_new] = given_pointers_.try_emplace(given);
  if (!is_new) return by_pointer->second;
  // Tables read from a file repeat by content only.
  const std::uint64_t hash = hash_of(*given);
  const auto [begin, end] = given_tables_.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    if (same(*it->second.first, *given)) {
      return by_pointer->second = it->second.second;
    }
  }
  by_pointer->second = make();
  given_tables_.emplace(hash, std::pair(given, by_pointer->second));
  return by_pointer->second;
}

Catalogue::Resized Catalogue::shape(const std::vector<std::int64_t>& numbers,
                                    std::int32_t num_segments) {
  return remember(&given_shapes_, numbers, [&] {
    Shape raw;
    raw.num_segments = num_segments;
    for (std::size_t at = 0; at < numbers.size();) {
      raw.cost.push_back(numbers[at]);
      raw.line.push_back(raw.num_lines++);
      raw.bytes.resize(raw.bytes.size() +
                       static_cast<std::size_t>(num_segments));
      std::int64_t* line = raw.bytes.data() + raw.bytes.size() - num_segments;
      const std::int64_t count = numbers[at + 1];
      at += 2;
      for (std::int64_t n = 0; n < count; ++n, at += 3) {
        for (std::int64_t s = numbers[at]; s < numbers[at + 1]; ++s) {
          line[s] += numbers[at + 2];
        }
      }
    }
    return intern_resized(canonical_shape(std::move(raw)),
                          num_segments == 0 ? 0 : num_segments + 1);
  });
}

TablePtr Catalogue::gather(const TablePtr& table, int end,
                           const IndicesPtr& chosen) {
  return remember(&tables_, {kGather, table->id, end, chosen->id}, [&] {
    return intern_table(end, gather_rows(*table->ends[end], chosen->values));
  });
}

TablePtr Catalogue::sum(const TablePtr& left, const TablePtr& right,
                        bool flipped) {
  return remember(&tables_, {kSum, left->id, right->id, flipped}, [&] {
    return intern_table(
        0, sum_of_tables(*left->ends[0], *right->ends[flipped ? 1 : 0]));
  });
}

bool Catalogue::separable(const TablePtr& table) {
  if (!table->separable) table->separable = is_separable(*table->ends[0]);
  return *table->separable;
}

IndicesPtr Catalogue::possible(const TablePtr& table, int end) {
  auto& known = table->facts[end].possible;
  if (!known) {
    auto list = possible_rows(*table->ends[end]);
    known = list ? indices(std::move(*list)) : nullptr;
  }
  return *known;
}

IndicesPtr Catalogue::reply(const TablePtr& table, int end, bool* one_to_one) {
  TableFacts& facts = table->facts[end];
  if (!facts.reply) {
    auto list = reply_to_rows(*table->ends[end], &facts.one_to_one);
    facts.reply = list ? indices(std::move(*list)) : nullptr;
  }
  *one_to_one = facts.one_to_one;
  return *facts.reply;
}

OrderPtr Catalogue::order(const TablePtr& table, int end) {
  OrderPtr& known = table->facts[end].order;
  if (known == nullptr) {
    known = intern(&all_orders_, order_of_rows(*table->ends[end]));
  }
  return known;
}

OrderPtr Catalogue::order(const ShapePtr& shape) {
  if (shape->order == nullptr) {
    shape->order =
        intern(&all_orders_, order_of_lines(shape->line, shape->num_lines,
                                            shape->num_segments, shape->bytes));
  }
  return shape->order;
}

SettingsPtr Catalogue::gather(const SettingsPtr& settings,
                              const IndicesPtr& chosen) {
  return remember(&settings_, {kGather, settings->id, chosen->id, 0}, [&] {
    const auto width = static_cast<std::size_t>(settings->num_members);
    List values;
    values.reserve(chosen->values.size() * width);
    for (const std::int32_t k : chosen->values) {
      const auto at = settings->values.begin() + std::ptrdiff_t(k * width);
      values.insert(values.end(), at, at + std::ptrdiff_t(width));
    }
    return this->settings(settings->num_members, std::move(values));
  });
}

SettingsPtr Catalogue::join(const SettingsPtr& left, const SettingsPtr& right) {
  return remember(&settings_, {kJoin, left->id, right->id, 0}, [&] {
    const std::int32_t wide = left->num_members;
    const std::int32_t more = right->num_members;
    List values;
    values.reserve(left->values.size() + right->values.size());
    auto from = left->values.begin();
    auto then = right->values.begin();
    for (; from != left->values.end(); from += wide, then += more) {
      values.insert(values.end(), from, from + wide);
      values.insert(values.end(), then, then + more);
    }
    return settings(wide + more, std::move(values));
  });
}

Catalogue::Resized Catalogue::gather(const ShapePtr& shape,
                                     const IndicesPtr& chosen) {
  return remember(&resized_, {kGather, shape->id, chosen->id, 0}, [&] {
    const auto ends = shape->num_segments == 0 ? 0 : shape->num_segments + 1;
    return intern_resized(gather_choices(*shape, chosen->values), ends);
  });
}

Catalogue::Resized Catalogue::sum(const ShapePtr& left, const ShapePtr& right,
                                  const IndicesPtr& owners) {
  return remember(&resized_, {kSum, left->id, right->id, owners->id}, [&] {
    return intern_resized(sum_of_shapes(*left, *right, owners->values),
                          owners->values.size());
  });
}

Catalogue::Resized Catalogue::keep_segments(const ShapePtr& shape,
                                            const IndicesPtr& kept) {
  return remember(&resized_, {kKeepSegments, shape->id, kept->id, 0}, [&] {
    const std::size_t count = kept->values.size();
    return intern_resized(internal::keep_segments(*shape, kept->values),
                          count == 0 ? 0 : count + 1);
  });
}

ShapePtr Catalogue::without_cost(const ShapePtr& shape) {
  return remember(&shapes_, {kWithoutCost, shape->id, 0, 0}, [&] {
    std::vector<std::int64_t> less;
    for (const std::int64_t cost : shape->cost) less.push_back(-cost);
    return intern(&all_shapes_, add_costs(*shape, less));
  });
}

ShapePtr Catalogue::add_separable(const ShapePtr& shape, const TablePtr& table,
                                  int end) {
  return remember(&shapes_, {kSeparable, shape->id, table->id, end}, [&] {
    const EdgeTable& side = *table->ends[end];
    std::vector<std::int64_t> costs;
    for (std::int32_t k = 0; k < shape->num_choices(); ++k) {
      // Class 0 is choice 0's.
      costs.push_back(side.at(k, 0) - (end == 1 ? side.at(0, 0) : 0));
    }
    return intern(&all_shapes_, add_costs(*shape, costs));
  });
}

Catalogue::Costed Catalogue::intern_costed(const Shape& shape,
                                           std::vector<std::int64_t> costs) {
  Costed out;
  out.shape = intern(&all_shapes_, add_costs(shape, costs));
  List finite;
  for (std::size_t k = 0; k < costs.size(); ++k) {
    if (costs[k] < kInfinite) finite.push_back(static_cast<std::int32_t>(k));
  }
  if (finite.size() < costs.size()) out.finite = indices(std::move(finite));
  return out;
}

Catalogue::Costed Catalogue::add_single(const ShapePtr& shape,
                                        const TablePtr& table, int end) {
  return remember(&costed_, {kSingle, shape->id, table->id, end}, [&] {
    std::vector<std::int64_t> costs;
    for (std::int32_t k = 0; k < shape->num_choices(); ++k) {
      costs.push_back(table->ends[end]->at(k, 0));
    }
    return intern_costed(*shape, std::move(costs));
  });
}

Catalogue::Costed Catalogue::add_diagonal(const ShapePtr& shape,
                                          const TablePtr& table) {
  return remember(&costed_, {kDiagonal, shape->id, table->id, 0}, [&] {
    std::vector<std::int64_t> costs;
    for (std::int32_t k = 0; k < shape->num_choices(); ++k) {
      costs.push_back(table->ends[0]->at(k, k));
    }
    return intern_costed(*shape, std::move(costs));
  });
}

const Outline& Catalogue::outline(const ShapePtr& shape) {
  if (share_) {
    const auto [found, is_new] = outlines_.try_emplace({shape->id, 0, 0, 0});
    if (is_new) found->second = outline_of(*shape);
    return found->second;
  }
  last_outline_ = outline_of(*shape);
  return last_outline_;
}

IndicesPtr Catalogue::undominated(const ShapePtr& shape,
                                  const std::vector<TableEnd>& edges) {
  std::vector<OrderPtr> orders = {order(shape)};
  for (const auto& [table, end] : edges) orders.push_back(order(table, end));
  // Which edge says what does not matter.
  std::sort(orders.begin() + 1, orders.end(),
            [](const auto& l, const auto& r) { return l->id < r->id; });
  LongKey key = {shape->id};
  for (const OrderPtr& order : orders) key.push_back(order->id);
  return remember(&undominated_, std::move(key), [&]() -> IndicesPtr {
    ++counts_.dominance_worked_out;
    auto kept = undominated_choices(shape->cost, orders, budget_);
    return kept ? indices(std::move(*kept)) : nullptr;
  });
}

IndicesPtr Catalogue::leaf_reply(const ShapePtr& leaf, const TablePtr& table,
                                 int end) {
  return remember(&replies_, {leaf->id, table->id, end, 0},
                  [&]() -> IndicesPtr {
                    auto reply = best_replies(*leaf, *table->ends[1 - end]);
                    return reply ? indices(std::move(*reply)) : nullptr;
                  });
}

void Catalogue::trim() {
  if (remembered_ < kMostRemembered) return;
  remembered_ = 0;
  all_indices_.clear();
  all_settings_.clear();
  all_tables_.clear();
  all_shapes_.clear();
  all_orders_.clear();
  given_tables_.clear();
  given_pointers_.clear();
  given_shapes_.clear();
  tables_.clear();
  settings_.clear();
  resized_.clear();
  shapes_.clear();
  costed_.clear();
  outlines_.clear();
  replies_.clear();
  undominated_.clear();
}

}  // namespace shardwright::solver::internal
