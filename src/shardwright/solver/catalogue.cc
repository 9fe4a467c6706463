// Tables, settings, and the catalogue itself.
#include "shardwright/solver/catalogue.h"

#include <utility>

#include "shardwright/solver/catalogue_memory.h"
#include "shardwright/solver/presolve_tables.h"

namespace shardwright::solver::internal {

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

void Catalogue::trim() {
  if (remembered_ < most_remembered_) return;
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
