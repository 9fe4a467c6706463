// Which choices of a node can go whatever the rest of the problem chooses.
#pragma once

#include <optional>

#include "shardwright/solver/budget.h"
#include "shardwright/solver/presolve_data.h"

namespace shardwright::solver::internal {

// Dominance. Choice k of a node makes choice l superfluous when it costs no
// more, needs no more bytes at any position, and is no dearer towards any
// choice of any neighbour: swapping l for k keeps every answer as good. The
// latter two are `orders`. Returns the choices that stay, when some go.
//
// Gives every class the set of choices (a bit each) that are nowhere above; the
// candidates against a choice are the common bits of its classes, up to the
// place where choices get dearer. O(choices^2 orders / 64).
std::optional<List> undominated_choices(const std::vector<std::int64_t>& cost,
                                        const std::vector<OrderPtr>& orders,
                                        Budget* budget);

// A leaf hangs on one neighbour, the rows' end of `table`. The reply to each of
// the neighbour's choices that is best in cost and at every position's memory,
// when each has one.
std::optional<List> best_replies(const Shape& leaf, const EdgeTable& table);

}  // namespace shardwright::solver::internal
