#include "shardwright/solver/mps.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "shardwright/base/check.h"

namespace shardwright::solver {
namespace {

// Positions where an interval starts, in order.
std::vector<std::int32_t> starts_of(const ChoiceProblem& problem) {
  std::vector<bool> starts(problem.num_positions, false);
  for (const Node& node : problem.nodes) {
    for (const Choice& choice : node.choices) {
      for (const MemoryInterval& item : choice.intervals) {
        if (item.lo < item.hi) starts[item.lo] = true;
      }
    }
  }
  std::vector<std::int32_t> out;
  for (std::int32_t p = 0; p < problem.num_positions; ++p) {
    if (starts[p]) out.push_back(p);
  }
  return out;
}

class Writer {
 public:
  Writer(const ChoiceProblem& problem, double bytes_unit)
      : problem_(problem),
        bytes_unit_(bytes_unit),
        edges_of_(edges_of_nodes(problem)) {
    if (problem.limit) positions_ = starts_of(problem);
  }

  std::string write() {
    line("NAME shardwright");
    rows();
    line("COLUMNS");
    line(" MARKER 'MARKER' 'INTORG'");
    for (std::size_t i = 0; i < problem_.nodes.size(); ++i) choice_columns(i);
    line(" MARKER 'MARKER' 'INTEND'");
    for (std::size_t e = 0; e < problem_.edges.size(); ++e) pair_columns(e);
    right_sides();
    line("BOUNDS");
    for (std::size_t i = 0; i < problem_.nodes.size(); ++i) {
      for (std::size_t k = 0; k < problem_.nodes[i].choices.size(); ++k) {
        if (problem_.nodes[i].choices[k].cost >= kInfinite) continue;
        line(fmt::format(" UP bound x{}_{} 1", i, k));
      }
    }
    line("ENDATA");
    return std::move(text_);
  }

 private:
  void line(const std::string& text) {
    text_ += text;
    text_ += '\n';
  }

  void rows() {
    line("ROWS");
    line(" N cost");
    for (std::size_t i = 0; i < problem_.nodes.size(); ++i) {
      line(fmt::format(" E one{}", i));
    }
    for (std::size_t e = 0; e < problem_.edges.size(); ++e) {
      const EdgeTable& table = *problem_.edges[e].table;
      for (std::int32_t r = 0; r < table.num_row_classes; ++r) {
        line(fmt::format(" E row{}_{}", e, r));
      }
      for (std::int32_t c = 0; c < table.num_col_classes; ++c) {
        line(fmt::format(" E col{}_{}", e, c));
      }
    }
    for (const std::int32_t p : positions_) line(fmt::format(" L mem{}", p));
  }

  void choice_columns(std::size_t i) {
    const Node& node = problem_.nodes[i];
    for (std::size_t k = 0; k < node.choices.size(); ++k) {
      if (node.choices[k].cost >= kInfinite) continue;
      const std::string name = fmt::format(" x{}_{}", i, k);
      line(fmt::format("{} cost {}", name, node.choices[k].cost));
      line(fmt::format("{} one{} 1", name, i));
      for (const std::int32_t e : edges_of_[i]) {
        const Edge& edge = problem_.edges[e];
        const bool is_row = edge.a == static_cast<std::int32_t>(i);
        line(fmt::format(
            "{} {}{}_{} -1", name, is_row ? "row" : "col", e,
            is_row ? edge.table->row_class[k] : edge.table->col_class[k]));
      }
      memory_entries(name, node.choices[k]);
    }
  }

  void memory_entries(const std::string& name, const Choice& choice) {
    std::map<std::int32_t, std::int64_t> bytes;
    for (const MemoryInterval& item : choice.intervals) {
      auto at = std::lower_bound(positions_.begin(), positions_.end(), item.lo);
      for (; at != positions_.end() && *at < item.hi; ++at) {
        bytes[*at] += item.bytes;
      }
    }
    for (const auto& [position, sum] : bytes) {
      if (sum == 0) continue;
      line(fmt::format("{} mem{} {:.17g}", name, position,
                       double(sum) / bytes_unit_));
    }
  }

  void pair_columns(std::size_t e) {
    const EdgeTable& table = *problem_.edges[e].table;
    for (std::int32_t r = 0; r < table.num_row_classes; ++r) {
      for (std::int32_t c = 0; c < table.num_col_classes; ++c) {
        const std::int64_t cost =
            table.cost[static_cast<std::size_t>(r) * table.num_col_classes + c];
        if (cost >= kInfinite) continue;
        const std::string name = fmt::format(" y{}_{}_{}", e, r, c);
        line(fmt::format("{} cost {}", name, cost));
        line(fmt::format("{} row{}_{} 1", name, e, r));
        line(fmt::format("{} col{}_{} 1", name, e, c));
      }
    }
  }

  void right_sides() {
    line("RHS");
    for (std::size_t i = 0; i < problem_.nodes.size(); ++i) {
      line(fmt::format(" rhs one{} 1", i));
    }
    for (const std::int32_t p : positions_) {
      line(fmt::format(" rhs mem{} {:.17g}", p,
                       double(*problem_.limit) / bytes_unit_));
    }
  }

  const ChoiceProblem& problem_;
  double bytes_unit_;
  std::vector<std::int32_t> positions_;
  std::vector<std::vector<std::int32_t>> edges_of_;
  std::string text_;
};

}  // namespace

std::string to_mps(const ChoiceProblem& problem, double bytes_unit) {
  const Result<bool> valid = validate(problem);
  SW_CHECK(valid.has_value(), valid ? "" : valid.error().message);
  SW_CHECK(bytes_unit > 0, "[solver] mps: bytes_unit must be positive");
  return Writer(problem, bytes_unit).write();
}

}  // namespace shardwright::solver
