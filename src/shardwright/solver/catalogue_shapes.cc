// Shapes, and what is asked of a shape with its edges.
#include <algorithm>
#include <utility>

#include "shardwright/solver/catalogue.h"
#include "shardwright/solver/catalogue_memory.h"
#include "shardwright/solver/presolve_dominance.h"
#include "shardwright/solver/presolve_tables.h"

namespace shardwright::solver::internal {

Catalogue::Resized Catalogue::intern_resized(ResizedShape&& resized,
                                             std::size_t ends_before) {
  Resized out;
  out.shape = intern(&all_shapes_, std::move(resized.shape));
  if (resized.ends.size() != ends_before) {
    out.ends = indices(std::move(resized.ends));
  }
  return out;
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

Catalogue::Resized Catalogue::shape(Shape&& raw) {
  const std::int32_t segments = raw.num_segments;
  return intern_resized(canonical_shape(std::move(raw)),
                        segments == 0 ? 0 : segments + 1);
}

OrderPtr Catalogue::order(const ShapePtr& shape) {
  if (shape->order == nullptr) {
    shape->order =
        intern(&all_orders_, order_of_lines(shape->line, shape->num_lines,
                                            shape->num_segments, shape->bytes));
  }
  return shape->order;
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
    costs.reserve(static_cast<std::size_t>(shape->num_choices()));
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
    costs.reserve(static_cast<std::size_t>(shape->num_choices()));
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
    costs.reserve(static_cast<std::size_t>(shape->num_choices()));
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

}  // namespace shardwright::solver::internal
