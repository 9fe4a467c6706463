#include "shardwright/solver/choice_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>

namespace shardwright::solver {
namespace {

__extension__ typedef __int128 Wide;

tl::unexpected<Error> bad(std::string text) {
  return make_error(ErrorCode::kInvalidArgument, "[solver] " + std::move(text));
}

std::string name_of(const ChoiceProblem& problem, std::int32_t node) {
  return fmt::format("node {} '{}'", node, problem.nodes[node].name);
}

Result<bool> check_node(const ChoiceProblem& problem, std::int32_t index,
                        Wide* costs, Wide* bytes) {
  const Node& node = problem.nodes[index];
  if (node.choices.empty()) {
    return bad(
        fmt::format("a node has no choice: expected at least one ({}). "
                    "Try: drop the node or find why every choice was "
                    "refused.",
                    name_of(problem, index)));
  }
  Wide largest_cost = 0;
  Wide largest_bytes = 0;
  for (std::size_t k = 0; k < node.choices.size(); ++k) {
    const Choice& choice = node.choices[k];
    if (choice.cost < kInfinite) {
      largest_cost =
          std::max(largest_cost,
                   choice.cost < 0 ? -Wide(choice.cost) : Wide(choice.cost));
    }
    Wide sum = 0;
    for (const MemoryInterval& interval : choice.intervals) {
      if (interval.lo < 0 || interval.hi < interval.lo ||
          interval.hi > problem.num_positions) {
        return bad(fmt::format(
            "an interval leaves the axis: expected 0 <= lo <= hi <= {}, got "
            "[{}, {}) ({}, choice {})",
            problem.num_positions, interval.lo, interval.hi,
            name_of(problem, index), k));
      }
      if (interval.bytes < 0) {
        return bad(
            fmt::format("negative memory: expected bytes >= 0, got {} "
                        "({}, choice {})",
                        interval.bytes, name_of(problem, index), k));
      }
      sum += interval.bytes;
    }
    largest_bytes = std::max(largest_bytes, sum);
  }
  *costs += largest_cost;
  *bytes += largest_bytes;
  return true;
}

Result<bool> check_classes(const std::vector<std::int32_t>& classes,
                           std::int32_t num_classes, std::size_t num_choices,
                           const char* side, std::size_t edge) {
  if (classes.size() != num_choices) {
    return bad(
        fmt::format("an edge table has the wrong size: expected {} {} "
                    "classes, one per choice, got {} (edge {})",
                    num_choices, side, classes.size(), edge));
  }
  for (const std::int32_t c : classes) {
    if (c < 0 || c >= num_classes) {
      return bad(
          fmt::format("a {} class is out of range: expected 0 <= class "
                      "< {}, got {} (edge {})",
                      side, num_classes, c, edge));
    }
  }
  return true;
}

Result<bool> check_edge(const ChoiceProblem& problem, std::size_t index,
                        std::map<const EdgeTable*, Wide>* largest,
                        Wide* costs) {
  const Edge& edge = problem.edges[index];
  const auto count = static_cast<std::int32_t>(problem.nodes.size());
  if (edge.a < 0 || edge.a >= count || edge.b < 0 || edge.b >= count) {
    return bad(
        fmt::format("an edge leaves the problem: expected nodes below "
                    "{}, got ({}, {}) (edge {})",
                    count, edge.a, edge.b, index));
  }
  if (edge.a == edge.b) {
    return bad(
        fmt::format("an edge joins a node with itself: expected two "
                    "nodes, got {} twice (edge {}). Try: add the table's "
                    "diagonal to the node's costs.",
                    name_of(problem, edge.a), index));
  }
  if (edge.table == nullptr) {
    return bad(fmt::format("an edge has no table (edge {})", index));
  }
  const EdgeTable& table = *edge.table;
  SW_RETURN_IF_ERROR(check_classes(table.row_class, table.num_row_classes,
                                   problem.nodes[edge.a].choices.size(), "row",
                                   index));
  SW_RETURN_IF_ERROR(check_classes(table.col_class, table.num_col_classes,
                                   problem.nodes[edge.b].choices.size(),
                                   "column", index));
  const auto [found, is_new] = largest->try_emplace(&table, 0);
  if (is_new) {
    const Wide cells = Wide(table.num_row_classes) * table.num_col_classes;
    if (cells != static_cast<Wide>(table.cost.size())) {
      return bad(
          fmt::format("an edge table has the wrong size: expected {} x "
                      "{} costs, got {} (edge {})",
                      table.num_row_classes, table.num_col_classes,
                      table.cost.size(), index));
    }
    for (const std::int64_t cost : table.cost) {
      if (cost >= kInfinite) continue;
      found->second =
          std::max(found->second, cost < 0 ? -Wide(cost) : Wide(cost));
    }
  }
  *costs += found->second;
  return true;
}

// Gives equal vectors equal numbers, in order of first appearance.
std::vector<std::int32_t> number_equal(
    const std::vector<std::vector<std::int64_t>>& lines, std::int32_t* count) {
  std::map<std::vector<std::int64_t>, std::int32_t> seen;
  std::vector<std::int32_t> out;
  out.reserve(lines.size());
  for (const auto& line : lines) {
    out.push_back(seen.try_emplace(line, static_cast<std::int32_t>(seen.size()))
                      .first->second);
  }
  *count = static_cast<std::int32_t>(seen.size());
  return out;
}

}  // namespace

std::int64_t bytes_at(const Choice& choice, std::int32_t position) {
  std::int64_t bytes = 0;
  for (const MemoryInterval& item : choice.intervals) {
    if (item.lo <= position && position < item.hi) bytes += item.bytes;
  }
  return bytes;
}

std::shared_ptr<const EdgeTable> make_edge_table(
    std::int32_t num_rows, std::int32_t num_cols,
    const std::vector<std::int64_t>& matrix) {
  auto table = std::make_shared<EdgeTable>();
  std::vector<std::vector<std::int64_t>> rows(num_rows);
  std::vector<std::vector<std::int64_t>> cols(num_cols);
  for (std::int32_t k = 0; k < num_rows; ++k) {
    for (std::int32_t l = 0; l < num_cols; ++l) {
      const std::int64_t cost = std::min(
          kInfinite, matrix[static_cast<std::size_t>(k) * num_cols + l]);
      rows[k].push_back(cost);
      cols[l].push_back(cost);
    }
  }
  table->row_class = number_equal(rows, &table->num_row_classes);
  table->col_class = number_equal(cols, &table->num_col_classes);
  table->cost.assign(
      static_cast<std::size_t>(table->num_row_classes) * table->num_col_classes,
      kInfinite);
  for (std::int32_t k = 0; k < num_rows; ++k) {
    for (std::int32_t l = 0; l < num_cols; ++l) {
      table->cost[static_cast<std::size_t>(table->row_class[k]) *
                      table->num_col_classes +
                  table->col_class[l]] = rows[k][l];
    }
  }
  return table;
}

std::vector<std::vector<std::int32_t>> edges_of_nodes(
    const ChoiceProblem& problem) {
  std::vector<std::vector<std::int32_t>> out(problem.nodes.size());
  for (std::size_t e = 0; e < problem.edges.size(); ++e) {
    out[problem.edges[e].a].push_back(static_cast<std::int32_t>(e));
    out[problem.edges[e].b].push_back(static_cast<std::int32_t>(e));
  }
  return out;
}

Result<bool> validate(const ChoiceProblem& problem) {
  if (problem.num_positions < 0) {
    return bad(fmt::format("the axis has a negative length: got {}",
                           problem.num_positions));
  }
  if (problem.limit && (*problem.limit < 0 || *problem.limit > kLargestTotal)) {
    return bad(
        fmt::format("the limit is out of range: expected 0 <= limit <= "
                    "{}, got {}. Try: no limit at all for free memory.",
                    kLargestTotal, *problem.limit));
  }
  Wide costs = 0;
  Wide bytes = 0;
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    SW_RETURN_IF_ERROR(
        check_node(problem, static_cast<std::int32_t>(i), &costs, &bytes));
  }
  std::map<const EdgeTable*, Wide> largest;
  for (std::size_t e = 0; e < problem.edges.size(); ++e) {
    SW_RETURN_IF_ERROR(check_edge(problem, e, &largest, &costs));
  }
  if (costs > kLargestTotal || bytes > kLargestTotal) {
    return bad(fmt::format(
        "the numbers are too large: expected totals of at most {}, got more "
        "{}. Try: a coarser unit.",
        kLargestTotal, costs > kLargestTotal ? "cost" : "memory"));
  }
  return true;
}

}  // namespace shardwright::solver
