#include "shardwright/solver/problem_json.h"

#include <fmt/format.h>

namespace shardwright::solver {
namespace {

tl::unexpected<Error> bad(const std::string& where, const std::string& text) {
  return make_error(ErrorCode::kParseError,
                    fmt::format("[solver] {}: {}", where, text));
}

Result<std::int64_t> cost_of(const Json& value, const std::string& where) {
  if (value.is_null()) return kInfinite;
  if (!value.is_number_integer()) {
    return bad(where, "a cost must be a whole number or null (infinite)");
  }
  if (value.is_number_unsigned() && value.get<std::uint64_t>() >= kInfinite) {
    return kInfinite;
  }
  return std::min(kInfinite, value.get<std::int64_t>());
}

Result<Choice> read_choice(const Json& json, const std::string& where) {
  Choice choice;
  if (!json.is_object() || !json.contains("cost")) {
    return bad(where, "a choice must be an object with 'cost'");
  }
  SW_ASSIGN_OR_RETURN(choice.cost, cost_of(json["cost"], where));
  SW_ASSIGN_OR_RETURN(const Json* intervals,
                      get_array(json, "intervals", where));
  for (const Json& item : *intervals) {
    if (!item.is_array() || item.size() != 3 || !item[0].is_number_integer() ||
        !item[1].is_number_integer() || !item[2].is_number_integer()) {
      return bad(where, "an interval must be [lo, hi, bytes]");
    }
    const auto lo = item[0].get<std::int64_t>();
    const auto hi = item[1].get<std::int64_t>();
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
    if (lo < 0 || hi < 0 || lo > kMost || hi > kMost) {
      return bad(where, "an interval leaves the axis");
    }
    choice.intervals.push_back({static_cast<std::int32_t>(lo),
                                static_cast<std::int32_t>(hi),
                                item[2].get<std::int64_t>()});
  }
  return choice;
}

Result<Node> read_node(const Json& json, const std::string& where) {
  Node node;
  SW_ASSIGN_OR_RETURN(node.name, get_string(json, "name", where));
  SW_ASSIGN_OR_RETURN(const Json* choices, get_array(json, "choices", where));
  for (const Json& item : *choices) {
    SW_ASSIGN_OR_RETURN(Choice choice,
                        read_choice(item, where + " '" + node.name + "'"));
    node.choices.push_back(std::move(choice));
  }
  return node;
}

// Row-major costs of `lines`: lists of numbers and nulls, or texts of 0 and 1.
Result<std::vector<std::int64_t>> read_matrix(const Json& lines,
                                              std::size_t num_rows,
                                              std::size_t num_cols,
                                              const std::string& where) {
  if (lines.size() != num_rows) {
    return bad(where, fmt::format("expected {} lines, got {}", num_rows,
                                  lines.size()));
  }
  std::vector<std::int64_t> matrix;
  for (const Json& line : lines) {
    const bool is_text = line.is_string();
    if (!is_text && !line.is_array()) {
      return bad(where, "a line must be a list or a text of 0 and 1");
    }
    const std::string text = is_text ? line.get<std::string>() : "";
    const std::size_t length = is_text ? text.size() : line.size();
    if (length != num_cols) {
      return bad(where, fmt::format("expected {} entries in a line, got {}",
                                    num_cols, length));
    }
    for (std::size_t l = 0; l < length; ++l) {
      if (is_text) {
        if (text[l] != '0' && text[l] != '1') {
          return bad(where, "'allowed' holds texts of 0 and 1");
        }
        matrix.push_back(text[l] == '1' ? 0 : kInfinite);
      } else {
        SW_ASSIGN_OR_RETURN(const std::int64_t cost, cost_of(line[l], where));
        matrix.push_back(cost);
      }
    }
  }
  return matrix;
}

Result<std::vector<std::int32_t>> read_classes(const Json& json,
                                               const char* key,
                                               std::int32_t* count,
                                               const std::string& where) {
  SW_ASSIGN_OR_RETURN(const std::vector<std::int64_t> values,
                      get_ints(json, key, where));
  std::vector<std::int32_t> out;
  *count = 0;
  for (const std::int64_t value : values) {
    if (value < 0 || value >= static_cast<std::int64_t>(values.size())) {
      return bad(where, fmt::format("'{}' is out of range: {}", key, value));
    }
    out.push_back(static_cast<std::int32_t>(value));
    *count = std::max(*count, out.back() + 1);
  }
  return out;
}

Result<std::shared_ptr<const EdgeTable>> read_class_table(
    const Json& json, const std::string& where) {
  auto table = std::make_shared<EdgeTable>();
  SW_ASSIGN_OR_RETURN(
      table->row_class,
      read_classes(json, "row_class", &table->num_row_classes, where));
  SW_ASSIGN_OR_RETURN(
      table->col_class,
      read_classes(json, "col_class", &table->num_col_classes, where));
  SW_ASSIGN_OR_RETURN(const Json* costs, get_array(json, "costs", where));
  SW_ASSIGN_OR_RETURN(table->cost, read_matrix(*costs, table->num_row_classes,
                                               table->num_col_classes, where));
  return std::shared_ptr<const EdgeTable>(std::move(table));
}

Result<Edge> read_edge(const Json& json, const ChoiceProblem& problem,
                       const std::string& where) {
  SW_ASSIGN_OR_RETURN(const std::vector<std::int64_t> ends,
                      get_ints(json, "nodes", where));
  const auto count = static_cast<std::int64_t>(problem.nodes.size());
  if (ends.size() != 2 || ends[0] < 0 || ends[0] >= count || ends[1] < 0 ||
      ends[1] >= count) {
    return bad(where, fmt::format("'nodes' must name two of {} nodes", count));
  }
  Edge edge{static_cast<std::int32_t>(ends[0]),
            static_cast<std::int32_t>(ends[1]), nullptr};
  if (json.contains("costs")) {
    SW_ASSIGN_OR_RETURN(edge.table, read_class_table(json, where));
    return edge;
  }
  const char* key = json.contains("allowed") ? "allowed" : "table";
  SW_ASSIGN_OR_RETURN(const Json* lines, get_array(json, key, where));
  const std::size_t rows = problem.nodes[edge.a].choices.size();
  const std::size_t cols = problem.nodes[edge.b].choices.size();
  SW_ASSIGN_OR_RETURN(const std::vector<std::int64_t> matrix,
                      read_matrix(*lines, rows, cols, where));
  edge.table = make_edge_table(static_cast<std::int32_t>(rows),
                               static_cast<std::int32_t>(cols), matrix);
  return edge;
}

Json edge_to_json(const Edge& edge) {
  const EdgeTable& table = *edge.table;
  Json costs = Json::array();
  for (std::int32_t r = 0; r < table.num_row_classes; ++r) {
    Json line = Json::array();
    for (std::int32_t c = 0; c < table.num_col_classes; ++c) {
      const std::int64_t cost =
          table.cost[static_cast<std::size_t>(r) * table.num_col_classes + c];
      line.push_back(finite_or_null(cost));
    }
    costs.push_back(std::move(line));
  }
  return Json{{"nodes", {edge.a, edge.b}},
              {"row_class", table.row_class},
              {"col_class", table.col_class},
              {"costs", std::move(costs)}};
}

}  // namespace

Json finite_or_null(std::int64_t number) {
  return number >= kInfinite || number <= -kInfinite ? Json(nullptr)
                                                     : Json(number);
}

Json problem_to_json(const ChoiceProblem& problem) {
  Json nodes = Json::array();
  for (const Node& node : problem.nodes) {
    Json choices = Json::array();
    for (const Choice& choice : node.choices) {
      Json intervals = Json::array();
      for (const MemoryInterval& item : choice.intervals) {
        intervals.push_back(Json::array({item.lo, item.hi, item.bytes}));
      }
      choices.push_back(Json{{"cost", finite_or_null(choice.cost)},
                             {"intervals", std::move(intervals)}});
    }
    nodes.push_back(Json{{"name", node.name}, {"choices", std::move(choices)}});
  }
  Json edges = Json::array();
  for (const Edge& edge : problem.edges) edges.push_back(edge_to_json(edge));
  return Json{{"positions", problem.num_positions},
              {"limit", problem.limit ? Json(*problem.limit) : Json(nullptr)},
              {"nodes", std::move(nodes)},
              {"edges", std::move(edges)}};
}

Result<ChoiceProblem> problem_from_json(const Json& json,
                                        const std::string& what) {
  ChoiceProblem problem;
  if (json.is_object() && json.contains("schema") && !json.contains("nodes")) {
    return bad(what, fmt::format("expected a choice problem, got a file of "
                                 "schema {}. Try: shardwright plan for a "
                                 "graph, shardwright explain for a plan",
                                 json["schema"].dump()));
  }
  SW_ASSIGN_OR_RETURN(const std::int64_t positions,
                      get_int(json, "positions", what));
  if (positions < 0 || positions >= std::numeric_limits<std::int32_t>::max()) {
    return bad(what, fmt::format("'positions' is out of range: {}", positions));
  }
  problem.num_positions = static_cast<std::int32_t>(positions);
  if (json.contains("limit") && !json["limit"].is_null()) {
    SW_ASSIGN_OR_RETURN(problem.limit, get_int(json, "limit", what));
  }
  SW_ASSIGN_OR_RETURN(const Json* nodes, get_array(json, "nodes", what));
  for (const Json& item : *nodes) {
    const std::string where =
        fmt::format("{}, node {}", what, problem.nodes.size());
    SW_ASSIGN_OR_RETURN(Node node, read_node(item, where));
    problem.nodes.push_back(std::move(node));
  }
  SW_ASSIGN_OR_RETURN(const Json* edges, get_array(json, "edges", what));
  for (const Json& item : *edges) {
    const std::string where =
        fmt::format("{}, edge {}", what, problem.edges.size());
    SW_ASSIGN_OR_RETURN(Edge edge, read_edge(item, problem, where));
    problem.edges.push_back(std::move(edge));
  }
  SW_RETURN_IF_ERROR(validate(problem));
  return problem;
}

}  // namespace shardwright::solver
