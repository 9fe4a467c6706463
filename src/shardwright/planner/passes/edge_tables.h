// Edge tables from what an edge can see of a choice. Choices that look alike
// share a line, and edges that look alike share a table: both keep deep models
// small.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "shardwright/sharding/port.h"
#include "shardwright/solver/choice_problem.h"

namespace shardwright::planner {

// What an edge can see of a choice.
using Signature = std::vector<std::int32_t>;

struct Classes {
  std::vector<std::int32_t> class_of;  // per choice
  std::vector<Signature> signatures;   // per class
};

template <typename T, typename F>
Classes classify(const std::vector<T>& choices, F signature_of) {
  Classes out;
  std::map<Signature, std::int32_t> known;
  for (const T& choice : choices) {
    Signature signature = signature_of(choice);
    const auto [entry, fresh] = known.emplace(
        signature, static_cast<std::int32_t>(out.signatures.size()));
    if (fresh) out.signatures.push_back(std::move(signature));
    out.class_of.push_back(entry->second);
  }
  return out;
}

// Ports as small numbers, so that signatures are cheap to compare.
class PortIds {
 public:
  std::int32_t of(const sharding::Port& port) {
    return ids_.emplace(port, static_cast<std::int32_t>(ids_.size()))
        .first->second;
  }

 private:
  std::map<sharding::Port, std::int32_t> ids_;
};

class EdgeTables {
 public:
  PortIds ports;

  // An edge between nodes a (rows) and b (columns); cost(row, column) of two
  // signatures, solver::kInfinite where they exclude each other. `relation`
  // numbers the cost function: equal relation, rows and columns must mean equal
  // costs, and share one table.
  template <typename Cost>
  solver::Edge edge(std::int32_t a, std::int32_t b, const Classes& rows,
                    const Classes& columns, const Signature& relation,
                    const Cost& cost) {
    auto& table = tables_[Key{relation, rows.class_of, rows.signatures,
                              columns.class_of, columns.signatures}];
    if (table == nullptr) {
      std::vector<std::int64_t> costs;
      costs.reserve(rows.signatures.size() * columns.signatures.size());
      for (const Signature& row : rows.signatures) {
        for (const Signature& column : columns.signatures) {
          costs.push_back(cost(row, column));
        }
      }
      table = table_of(rows, columns, std::move(costs));
    }
    return solver::Edge{a, b, table};
  }

  // A table of its own.
  static std::shared_ptr<const solver::EdgeTable> table_of(
      const Classes& rows, const Classes& columns,
      std::vector<std::int64_t> costs);

  // From a full matrix, row by row; equal matrices share one table.
  std::shared_ptr<const solver::EdgeTable> matrix(
      std::size_t num_rows, std::size_t num_columns,
      const std::vector<std::int64_t>& costs);

 private:
  struct Key {
    Signature relation;
    std::vector<std::int32_t> row_class;
    std::vector<Signature> rows;
    std::vector<std::int32_t> col_class;
    std::vector<Signature> columns;
    auto operator<=>(const Key&) const = default;
  };
  std::map<Key, std::shared_ptr<const solver::EdgeTable>> tables_;
  std::map<std::pair<std::size_t, std::vector<std::int64_t>>,
           std::shared_ptr<const solver::EdgeTable>>
      matrices_;
};

}  // namespace shardwright::planner
