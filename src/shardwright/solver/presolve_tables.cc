#include "shardwright/solver/presolve_tables.h"

#include <algorithm>
#include <numeric>

namespace shardwright::solver::internal {
namespace {

// Renumbers classes in order of first use; returns the old number of each.
List renumber(List* class_of, std::int32_t count) {
  List renamed(count, -1);
  List old;
  for (std::int32_t& c : *class_of) {
    if (renamed[c] < 0) {
      renamed[c] = static_cast<std::int32_t>(old.size());
      old.push_back(c);
    }
    c = renamed[c];
  }
  return old;
}

const std::int64_t* row_of(const EdgeTable& table, std::int32_t row) {
  return table.cost.data() + std::int64_t{row} * table.num_col_classes;
}

// Keeps these rows and columns, in this order.
void select(EdgeTable* table, const List& rows, const List& cols) {
  std::vector<std::int64_t> cost;
  cost.reserve(rows.size() * cols.size());
  for (const std::int32_t r : rows) {
    const std::int64_t* row = row_of(*table, r);
    for (const std::int32_t c : cols) cost.push_back(row[c]);
  }
  table->cost = std::move(cost);
  table->num_row_classes = static_cast<std::int32_t>(rows.size());
  table->num_col_classes = static_cast<std::int32_t>(cols.size());
}

void rename(List* class_of, const List& number) {
  for (std::int32_t& c : *class_of) c = number[c];
}

void merge_equal_rows(EdgeTable* table) {
  std::vector<std::uint64_t> hashes(table->num_row_classes, 1);
  const std::int32_t width = table->num_col_classes;
  for (std::int32_t r = 0; r < table->num_row_classes; ++r) {
    const std::int64_t* row = row_of(*table, r);
    std::uint64_t hash = 1;
    for (std::int32_t c = 0; c < width; ++c) {
      hash = mix(hash, static_cast<std::uint64_t>(row[c]));
    }
    hashes[r] = hash;
  }
  List first;
  const List number = number_equal(
      hashes,
      [&](std::int32_t i, std::int32_t j) {
        return std::equal(row_of(*table, i), row_of(*table, i) + width,
                          row_of(*table, j));
      },
      &first);
  if (static_cast<std::int32_t>(first.size()) == table->num_row_classes) return;
  List cols(width);
  std::iota(cols.begin(), cols.end(), 0);
  select(table, first, cols);
  rename(&table->row_class, number);
}

void merge_equal_columns(EdgeTable* table) {
  const std::int32_t width = table->num_col_classes;
  std::vector<std::uint64_t> hashes(width, 1);
  for (std::int32_t r = 0; r < table->num_row_classes; ++r) {
    const std::int64_t* row = row_of(*table, r);
    for (std::int32_t c = 0; c < width; ++c) {
      hashes[c] = mix(hashes[c], static_cast<std::uint64_t>(row[c]));
    }
  }
  List first;
  const List number = number_equal(
      hashes,
      [&](std::int32_t i, std::int32_t j) {
        for (std::int32_t r = 0; r < table->num_row_classes; ++r) {
          if (row_of(*table, r)[i] != row_of(*table, r)[j]) return false;
        }
        return true;
      },
      &first);
  if (static_cast<std::int32_t>(first.size()) == width) return;
  List rows(table->num_row_classes);
  std::iota(rows.begin(), rows.end(), 0);
  select(table, rows, first);
  rename(&table->col_class, number);
}

void make_canonical(EdgeTable* table) {
  const List rows = renumber(&table->row_class, table->num_row_classes);
  const List cols = renumber(&table->col_class, table->num_col_classes);
  select(table, rows, cols);
  merge_equal_rows(table);
  merge_equal_columns(table);
}

// Numbers the pairs of classes that occur.
List pairs_of(const List& left, const List& right, List* first) {
  std::vector<std::uint64_t> hashes(left.size());
  for (std::size_t k = 0; k < left.size(); ++k) {
    hashes[k] = mix(mix(1, static_cast<std::uint64_t>(left[k])),
                    static_cast<std::uint64_t>(right[k]));
  }
  return number_equal(
      hashes,
      [&](std::int32_t i, std::int32_t j) {
        return left[i] == left[j] && right[i] == right[j];
      },
      first);
}

}  // namespace

SidePtr canonical_table(const EdgeTable& table) {
  auto out = std::make_shared<EdgeTable>(table);
  for (std::int64_t& cost : out->cost) cost = std::min(cost, kInfinite);
  make_canonical(out.get());
  return out;
}

SidePtr transposed(const EdgeTable& table) {
  auto out = std::make_shared<EdgeTable>();
  out->row_class = table.col_class;
  out->col_class = table.row_class;
  out->num_row_classes = table.num_col_classes;
  out->num_col_classes = table.num_row_classes;
  out->cost.resize(table.cost.size());
  for (std::int32_t r = 0; r < table.num_row_classes; ++r) {
    const std::int64_t* row = row_of(table, r);
    for (std::int32_t c = 0; c < table.num_col_classes; ++c) {
      out->cost[std::int64_t{c} * table.num_row_classes + r] = row[c];
    }
  }
  return out;
}

SidePtr gather_rows(const EdgeTable& table, const List& chosen) {
  auto out = std::make_shared<EdgeTable>();
  out->row_class.reserve(chosen.size());
  for (const std::int32_t k : chosen) {
    out->row_class.push_back(table.row_class[k]);
  }
  const List rows = renumber(&out->row_class, table.num_row_classes);
  const auto width = static_cast<std::size_t>(table.num_col_classes);
  out->num_row_classes = static_cast<std::int32_t>(rows.size());
  out->num_col_classes = table.num_col_classes;
  out->col_class = table.col_class;
  out->cost.reserve(rows.size() * width);
  for (const std::int32_t r : rows) {
    out->cost.insert(out->cost.end(), row_of(table, r),
                     row_of(table, r) + width);
  }
  // Rows that differ go on to differ when equal columns become one; columns can
  // only have become equal when a row is gone.
  if (out->num_row_classes < table.num_row_classes) {
    merge_equal_columns(out.get());
  }
  return out;
}

SidePtr sum_of_tables(const EdgeTable& left, const EdgeTable& right) {
  auto out = std::make_shared<EdgeTable>();
  List rows;
  List cols;
  out->row_class = pairs_of(left.row_class, right.row_class, &rows);
  out->col_class = pairs_of(left.col_class, right.col_class, &cols);
  out->num_row_classes = static_cast<std::int32_t>(rows.size());
  out->num_col_classes = static_cast<std::int32_t>(cols.size());
  out->cost.reserve(rows.size() * cols.size());
  for (const std::int32_t k : rows) {
    for (const std::int32_t l : cols) {
      const std::int64_t one = left.at(k, l);
      const std::int64_t two = right.at(k, l);
      out->cost.push_back(one >= kInfinite || two >= kInfinite ? kInfinite
                                                               : one + two);
    }
  }
  make_canonical(out.get());
  return out;
}

bool is_separable(const EdgeTable& table) {
  const std::int64_t* top = row_of(table, 0);
  for (std::int32_t r = 0; r < table.num_row_classes; ++r) {
    const std::int64_t* row = row_of(table, r);
    for (std::int32_t c = 0; c < table.num_col_classes; ++c) {
      if (row[c] >= kInfinite || row[c] - top[c] != row[0] - top[0]) {
        return false;
      }
    }
  }
  return true;
}

std::optional<List> possible_rows(const EdgeTable& table) {
  std::vector<bool> possible(table.num_row_classes, false);
  bool all = true;
  for (std::int32_t r = 0; r < table.num_row_classes; ++r) {
    const std::int64_t* row = row_of(table, r);
    possible[r] = std::any_of(row, row + table.num_col_classes,
                              [](std::int64_t c) { return c < kInfinite; });
    all = all && possible[r];
  }
  if (all) return std::nullopt;
  List out;
  for (std::size_t k = 0; k < table.row_class.size(); ++k) {
    if (possible[table.row_class[k]]) {
      out.push_back(static_cast<std::int32_t>(k));
    }
  }
  return out;
}

std::optional<List> reply_to_rows(const EdgeTable& table, bool* one_to_one) {
  List size(table.num_col_classes, 0);
  List choice(table.num_col_classes, -1);
  for (std::size_t l = 0; l < table.col_class.size(); ++l) {
    ++size[table.col_class[l]];
    choice[table.col_class[l]] = static_cast<std::int32_t>(l);
  }
  List reply_of_row(table.num_row_classes, -1);
  for (std::int32_t r = 0; r < table.num_row_classes; ++r) {
    const std::int64_t* row = row_of(table, r);
    for (std::int32_t c = 0; c < table.num_col_classes; ++c) {
      if (row[c] >= kInfinite) continue;
      if (reply_of_row[r] >= 0 || size[c] != 1) return std::nullopt;
      reply_of_row[r] = choice[c];
    }
    if (reply_of_row[r] < 0) return std::nullopt;  // consistency comes first
  }
  List reply;
  std::vector<bool> used(table.col_class.size(), false);
  *one_to_one = true;
  for (const std::int32_t r : table.row_class) {
    reply.push_back(reply_of_row[r]);
    if (used[reply.back()]) *one_to_one = false;
    used[reply.back()] = true;
  }
  return reply;
}

Order order_of_rows(const EdgeTable& table) {
  return order_of_lines(table.row_class, table.num_row_classes,
                        table.num_col_classes, table.cost);
}

Order order_of_lines(const List& class_of, std::int32_t count,
                     std::int32_t width,
                     const std::vector<std::int64_t>& data) {
  Order out;
  out.class_of = class_of;
  out.count = count;
  out.below.assign(out.words() * count, 0);
  auto line = [&](std::int32_t i) {
    return data.data() + std::int64_t{i} * width;
  };
  // A line nowhere above another has no larger sum (of entries with the low
  // bits cut off, so that it cannot overflow): half of the pairs are out.
  std::vector<std::int64_t> sum(count, 0);
  for (std::int32_t i = 0; i < count; ++i) {
    for (std::int32_t c = 0; c < width; ++c) sum[i] += line(i)[c] >> 20;
  }
  List by_sum(count);
  std::iota(by_sum.begin(), by_sum.end(), 0);
  std::stable_sort(by_sum.begin(), by_sum.end(),
                   [&](auto i, auto j) { return sum[i] < sum[j]; });
  auto nowhere_above = [&](std::int32_t i, std::int32_t j) {
    const std::int64_t* left = line(i);
    const std::int64_t* right = line(j);
    for (std::int32_t c = 0; c < width; ++c) {
      if (left[c] > right[c]) return false;
    }
    return true;
  };
  for (const std::int32_t j : by_sum) {
    std::uint64_t* bits = out.below.data() + out.words() * j;
    for (const std::int32_t i : by_sum) {
      if (sum[i] > sum[j]) break;
      if (i == j || !nowhere_above(i, j)) continue;
      bits[i / 64] |= 1ULL << (i % 64);
    }
  }
  return out;
}

}  // namespace shardwright::solver::internal
