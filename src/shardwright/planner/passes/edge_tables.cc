#include "shardwright/planner/passes/edge_tables.h"

namespace shardwright::planner {

std::shared_ptr<const solver::EdgeTable> EdgeTables::table_of(
    const Classes& rows, const Classes& columns,
    std::vector<std::int64_t> costs) {
  auto out = std::make_shared<solver::EdgeTable>();
  out->row_class = rows.class_of;
  out->col_class = columns.class_of;
  out->num_row_classes = static_cast<std::int32_t>(rows.signatures.size());
  out->num_col_classes = static_cast<std::int32_t>(columns.signatures.size());
  out->cost = std::move(costs);
  return out;
}

std::shared_ptr<const solver::EdgeTable> EdgeTables::matrix(
    std::size_t num_rows, std::size_t num_columns,
    const std::vector<std::int64_t>& costs) {
  auto& table = matrices_[{num_rows, costs}];
  if (table == nullptr) {
    table =
        solver::make_edge_table(static_cast<std::int32_t>(num_rows),
                                static_cast<std::int32_t>(num_columns), costs);
  }
  return table;
}

}  // namespace shardwright::planner
