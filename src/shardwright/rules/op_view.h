// OpView: typed, forgiving reading of one op for the rule functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/ir/graph.h"

namespace shardwright::rules {

using Shape = std::vector<std::int64_t>;

class OpView {
 public:
  OpView(const ir::Graph& graph, const ir::Op& op) : graph_(&graph), op_(&op) {}

  [[nodiscard]] const ir::Op& op() const { return *op_; }
  [[nodiscard]] std::string base_name() const { return op_->base_name(); }

  [[nodiscard]] std::size_t num_operands() const {
    return op_->operands.size();
  }
  [[nodiscard]] std::size_t num_results() const { return op_->results.size(); }
  [[nodiscard]] const ir::Value& operand(std::size_t position) const;
  [[nodiscard]] const ir::Value& result(std::size_t position = 0) const;
  // Position of the operand given as this schema argument; -1: not given.
  [[nodiscard]] std::int32_t position(std::string_view arg) const {
    return op_->operand_of(arg);
  }
  [[nodiscard]] bool has(std::string_view arg) const {
    return position(arg) >= 0;
  }

  // Attributes; `fallback` when absent, null or of another type.
  [[nodiscard]] std::int64_t attr_int(const char* name,
                                      std::int64_t fallback) const;
  [[nodiscard]] double attr_double(const char* name, double fallback) const;
  [[nodiscard]] bool attr_bool(const char* name, bool fallback) const;
  [[nodiscard]] std::string attr_string(const char* name) const;
  // nullopt when absent, null or not a list; a lone number is a list of one.
  [[nodiscard]] std::optional<Shape> attr_ints(const char* name) const;
  [[nodiscard]] bool has_attr(const char* name) const;  // present, not null
  // A dim attribute counted from the front; nullopt when out of range.
  [[nodiscard]] std::optional<std::int64_t> attr_dim(
      const char* name, std::int64_t rank, std::int64_t fallback) const;
  // A list of dims as a mask over `rank` dims; absent, null and empty: all.
  [[nodiscard]] std::optional<std::vector<bool>> attr_dim_mask(
      const char* name, std::int64_t rank) const;

 private:
  const ir::Graph* graph_;
  const ir::Op* op_;
};

// A dim counted from the front; nullopt when out of range.
std::optional<std::int64_t> wrap_dim(std::int64_t dim, std::int64_t rank);

}  // namespace shardwright::rules
