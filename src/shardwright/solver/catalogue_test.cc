#include "shardwright/solver/catalogue.h"

#include <gtest/gtest.h>

#include "shardwright/solver/presolve_dominance.h"
#include "shardwright/solver/presolve_tables.h"
#include "shardwright/solver/solve.h"

namespace shardwright::solver::internal {
namespace {

constexpr std::int64_t kInf = kInfinite;

TEST(TablesTest, ColumnsThatBecomeEqualAreMerged) {
  const auto table = make_edge_table(3, 3,
                                     {1, 1, 2,  //
                                      3, 3, 3,  //
                                      4, 5, 4});
  EXPECT_EQ(table->num_col_classes, 3);
  const SidePtr two = gather_rows(*table, {1, 0, 1});
  EXPECT_EQ(two->row_class, (List{0, 1, 0}));
  EXPECT_EQ(two->col_class, (List{0, 0, 1}));
  EXPECT_EQ(two->cost, (std::vector<std::int64_t>{3, 3, 1, 2}));
}

TEST(TablesTest, EqualMatricesHaveEqualTables) {
  EdgeTable odd;  // row class 2 is never used, columns 0 and 1 are equal
  odd.row_class = {1, 0, 1};
  odd.col_class = {2, 0, 1};
  odd.num_row_classes = odd.num_col_classes = 3;
  odd.cost = {5, 5, 6, 7, 7, kInf + 3, 0, 1, 2};
  const SidePtr table = canonical_table(odd);
  const auto same = make_edge_table(3, 3,
                                    {kInf, 7, 7,  //
                                     6, 5, 5,     //
                                     kInf, 7, 7});
  const SidePtr other = canonical_table(*same);
  EXPECT_EQ(table->row_class, other->row_class);
  EXPECT_EQ(table->col_class, other->col_class);
  EXPECT_EQ(table->cost, other->cost);
  EXPECT_EQ(table->cost, (std::vector<std::int64_t>{kInf, 7, 6, 5}));
}

TEST(TablesTest, OrderOfRows) {
  const auto table = make_edge_table(3, 2,
                                     {1, 2,  //
                                      1, 3,  //
                                      0, 9});
  const Order order = order_of_rows(*table);
  EXPECT_EQ(order.below, (std::vector<std::uint64_t>{0, 0b001, 0}));
}

// 4 bytes on segments 0 and 1 or 2 bytes on segment 1; nothing on segment 2.
Shape small_shape() {
  Shape raw;
  raw.cost = {5, 6};
  raw.line = {0, 1};
  raw.num_lines = 2;
  raw.num_segments = 3;
  raw.bytes = {4, 4, 0, 0, 2, 0};
  return raw;
}

TEST(ShapesTest, EndsWithoutAChangeGo) {
  const ResizedShape both = canonical_shape(small_shape());
  EXPECT_EQ(both.ends, (List{0, 1, 2}));
  EXPECT_EQ(both.shape.bytes, (std::vector<std::int64_t>{4, 4, 0, 2}));
  const ResizedShape first = gather_choices(both.shape, {0, 0});
  EXPECT_EQ(first.ends, (List{0, 2}));
  EXPECT_EQ(first.shape.bytes, (std::vector<std::int64_t>{4}));
  EXPECT_EQ(first.shape.line, (List{0, 0}));
  const ResizedShape second = keep_segments(both.shape, {0});
  EXPECT_EQ(second.shape.bytes, (std::vector<std::int64_t>{4, 0}));
}

TEST(ShapesTest, SumsMeetAtTheirEnds) {
  const Shape left = canonical_shape(small_shape()).shape;  // ends 0, 1, 2
  Shape right;  // ends 1, 3: the first choice's bytes fill up the left's 4
  right.cost = {10, 20};
  right.line = {0, 1};
  right.num_lines = 2;
  right.num_segments = 1;
  right.bytes = {4, 1};
  const ResizedShape sum = sum_of_shapes(left, right, {1, 3, 1, 2});
  EXPECT_EQ(sum.shape.cost, (std::vector<std::int64_t>{15, 26}));
  EXPECT_EQ(sum.ends, (List{0, 1, 2, 3}));
  EXPECT_EQ(sum.shape.bytes, (std::vector<std::int64_t>{4, 8, 4, 0, 3, 1}));
  const Outline outline = outline_of(sum.shape);
  EXPECT_EQ(outline.most, (std::vector<std::int64_t>{4, 8, 4}));
  EXPECT_EQ(outline.rises, (std::vector<bool>{true, true, false, false}));
  EXPECT_EQ(outline.falls, (std::vector<bool>{false, false, true, true}));
}

TEST(DominanceTest, CheaperAndNowhereAbove) {
  SolveOptions options;
  Budget budget(options);
  auto order = std::make_shared<Order>();
  order->class_of = {0, 1, 1, 2};
  order->count = 3;
  order->below = {0, 0b001, 0};  // class 0 is below class 1
  // Choice 1 falls to choice 0, choice 2 too; choice 3 is not comparable.
  EXPECT_EQ(undominated_choices({4, 4, 7, 9}, {order}, &budget), (List{0, 3}));
  // Choice 0 is dearer now; choice 2 still agrees with choice 1.
  EXPECT_EQ(undominated_choices({5, 4, 7, 9}, {order}, &budget),
            (List{0, 1, 3}));
  EXPECT_EQ(undominated_choices({5, 4, 3, 9}, {order}, &budget),
            (List{0, 2, 3}));
}

TEST(CatalogueTest, EqualContentsAreOneObjectUntilForgotten) {
  SolveOptions options;
  Budget budget(options);
  Catalogue catalogue(true, &budget, /*most_remembered=*/1);
  const auto given = make_edge_table(2, 2, {1, 2, 3, 4});
  const auto copy = std::make_shared<EdgeTable>(*given);
  const TablePtr table = catalogue.table(given.get());
  EXPECT_EQ(table, catalogue.table(copy.get()));
  const TablePtr turned = catalogue.gather(table, 0, catalogue.indices({1, 0}));
  EXPECT_EQ(turned, catalogue.gather(table, 0, catalogue.indices({1, 0})));
  EXPECT_EQ(table, catalogue.gather(turned, 0, catalogue.indices({1, 0})));
  EXPECT_EQ(catalogue.counts().asked, 3);
  EXPECT_EQ(catalogue.counts().worked_out, 2);
  catalogue.trim();
  const TablePtr again = catalogue.gather(table, 0, catalogue.indices({1, 0}));
  EXPECT_NE(again, turned);
  EXPECT_NE(again->id, turned->id);
  EXPECT_EQ(again->ends[0]->cost, turned->ends[0]->cost);
}

TEST(CatalogueTest, WithoutSharingNothingIsRemembered) {
  SolveOptions options;
  Budget budget(options);
  Catalogue catalogue(false, &budget);
  EXPECT_NE(catalogue.indices({1}), catalogue.indices({1}));
  const auto given = make_edge_table(2, 2, {1, 2, 3, 4});
  EXPECT_NE(catalogue.table(given.get()), catalogue.table(given.get()));
}

}  // namespace
}  // namespace shardwright::solver::internal
