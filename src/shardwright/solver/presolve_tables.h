// Functions of edge tables. Each makes a new canonical table: classes numbered
// in order of first use by a choice, no two equal, none unused.
#pragma once

#include <memory>

#include "shardwright/solver/presolve_data.h"

namespace shardwright::solver::internal {

using SidePtr = std::shared_ptr<const EdgeTable>;

// Entries at or above kInfinite become kInfinite.
SidePtr canonical_table(const EdgeTable& table);
SidePtr transposed(const EdgeTable& table);

// New choice n of the rows' end is old choice chosen[n].
SidePtr gather_rows(const EdgeTable& table, const List& chosen);

// The sum of two tables between the same nodes.
SidePtr sum_of_tables(const EdgeTable& left, const EdgeTable& right);

// r[k, l] = u[k] + v[l], all finite.
bool is_separable(const EdgeTable& table);

// The choices at the rows' end that have a finite partner, when some have none.
std::optional<List> possible_rows(const EdgeTable& table);

// The one finite partner of each choice at the rows' end, when that is so.
std::optional<List> reply_to_rows(const EdgeTable& table, bool* one_to_one);

// Which rows are nowhere dearer. O(rows^2 columns) at worst, mostly far less:
// most pairs differ early.
Order order_of_rows(const EdgeTable& table);
// The same for any lines: class_of[k] names one of `count` lines of `width`.
Order order_of_lines(const List& class_of, std::int32_t count,
                     std::int32_t width, const std::vector<std::int64_t>& data);

}  // namespace shardwright::solver::internal
