#include "shardwright/solver/check_solution.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "shardwright/solver/problem_json.h"

namespace shardwright::solver {
namespace {

tl::unexpected<Error> bad(ErrorCode code, const std::string& what,
                          const std::string& text) {
  return make_error(code, fmt::format("[solver] {}: {}", what, text));
}

Result<std::int64_t> whole_number(const Json& value, const std::string& what,
                                  const std::string& name) {
  constexpr auto kMost =
      static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (!value.is_number_integer() ||
      (value.is_number_unsigned() && value.get<std::uint64_t>() > kMost)) {
    return bad(
        ErrorCode::kParseError, what,
        fmt::format("expected a whole number of 64 bits, got {} ({})",
                    value.is_primitive() ? value.dump() : value.type_name(),
                    name));
  }
  return value.get<std::int64_t>();
}

Result<std::optional<std::int64_t>> claim(const Json& json, const char* key,
                                          const std::string& what) {
  if (!json.contains(key) || json[key].is_null()) return std::nullopt;
  SW_ASSIGN_OR_RETURN(const std::int64_t value,
                      whole_number(json[key], what, fmt::format("'{}'", key)));
  return value;
}

Result<std::vector<std::int32_t>> read_choice(const Json& list,
                                              const std::string& what) {
  std::vector<std::int32_t> choice;
  choice.reserve(list.size());
  for (const Json& item : list) {
    const std::string name = fmt::format("node {}", choice.size());
    SW_ASSIGN_OR_RETURN(const std::int64_t index,
                        whole_number(item, what, name));
    if (index < 0 || index > std::numeric_limits<std::int32_t>::max()) {
      return bad(ErrorCode::kParseError, what,
                 fmt::format("expected the number of a choice, got {} ({})",
                             index, name));
    }
    choice.push_back(static_cast<std::int32_t>(index));
  }
  return choice;
}

}  // namespace

Result<Solution> solution_from_json(const Json& json, const std::string& what) {
  Solution solution;
  const bool is_answer = json.is_object() && json.contains("choice");
  const Json& list = is_answer ? json["choice"] : json;
  if (!list.is_array()) {
    return bad(ErrorCode::kParseError, what,
               fmt::format("expected a list of choices, or an object with the "
                           "list 'choice', got {}",
                           json.is_object()
                               ? (is_answer ? "another 'choice'"
                                            : "an object without 'choice'")
                               : json.type_name()));
  }
  SW_ASSIGN_OR_RETURN(solution.choice, read_choice(list, what));
  if (!is_answer) return solution;
  SW_ASSIGN_OR_RETURN(solution.cost, claim(json, "cost", what));
  SW_ASSIGN_OR_RETURN(solution.bound, claim(json, "bound", what));
  SW_ASSIGN_OR_RETURN(solution.peak, claim(json, "peak", what));
  return solution;
}

bool SolutionCheck::ok() const {
  return feasible &&
         std::all_of(claims.begin(), claims.end(),
                     [](const Claim& claim) { return claim.holds; });
}

Result<SolutionCheck> check_solution(const ChoiceProblem& problem,
                                     const Solution& solution,
                                     const std::string& what) {
  if (solution.choice.size() != problem.nodes.size()) {
    return bad(ErrorCode::kInvalidArgument, what,
               fmt::format("expected one choice per node: {}, got {}",
                           problem.nodes.size(), solution.choice.size()));
  }
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    const std::size_t count = problem.nodes[i].choices.size();
    if (solution.choice[i] < 0 ||
        static_cast<std::size_t>(solution.choice[i]) >= count) {
      return bad(ErrorCode::kInvalidArgument, what,
                 fmt::format("expected a choice below {}, got {} (node {})",
                             count, solution.choice[i], i));
    }
  }
  SolutionCheck out;
  out.value = evaluate(problem, solution.choice);
  out.feasible = out.value.feasible(problem.limit);
  const std::int64_t cost = out.value.cost;
  if (solution.cost) {
    out.claims.push_back(
        {"cost", *solution.cost, cost, *solution.cost == cost});
  }
  if (solution.bound) {
    out.claims.push_back(
        {"bound", *solution.bound, cost, *solution.bound <= cost});
  }
  if (solution.peak) {
    const std::int64_t peak = out.value.peak;
    out.claims.push_back(
        {"peak", *solution.peak, peak, *solution.peak == peak});
  }
  return out;
}

Json check_to_json(const ChoiceProblem& problem, const SolutionCheck& check) {
  Json claims = Json::array();
  for (const Claim& claim : check.claims) {
    claims.push_back({{"name", claim.name},
                      {"claimed", claim.claimed},
                      {"counted", finite_or_null(claim.counted)},
                      {"holds", claim.holds}});
  }
  return {{"cost", finite_or_null(check.value.cost)},
          {"peak", check.value.peak},
          {"peak_position", check.value.peak_position},
          {"limit", problem.limit ? Json(*problem.limit) : Json(nullptr)},
          {"feasible", check.feasible},
          {"claims", std::move(claims)},
          {"ok", check.ok()}};
}

}  // namespace shardwright::solver
