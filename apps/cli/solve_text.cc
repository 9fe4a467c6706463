#include "solve_text.h"

#include <fmt/format.h>

#include "shardwright/solver/answer_json.h"
#include "shardwright/solver/evaluate.h"
#include "shardwright/solver/explain_memory.h"

namespace shardwright::cli {
namespace {

using solver::Answer;
using solver::ChoiceProblem;

constexpr std::size_t kMostRanges = 5;

std::string number_text(std::int64_t number) {
  return number >= solver::kInfinite || number <= -solver::kInfinite
             ? "-"
             : std::to_string(number);
}

std::string ranges_text(const ChoiceProblem& problem, const Answer& answer) {
  const auto ranges =
      solver::ranges_near_peak(memory_profile(problem, answer.choice));
  std::string text;
  for (std::size_t n = 0; n < ranges.size() && n < kMostRanges; ++n) {
    text += fmt::format(" [{}, {})", ranges[n].lo, ranges[n].hi);
  }
  if (ranges.size() > kMostRanges) {
    text += fmt::format(" and {} more", ranges.size() - kMostRanges);
  }
  return text;
}

std::string infeasible_text(const ChoiceProblem& problem,
                            const Answer& answer) {
  if (answer.smallest_limit_bound >= solver::kInfinite) {
    return "no choice avoids the infinite edges\n";
  }
  const std::int32_t position = answer.binding_position;
  std::string text = fmt::format(
      "smallest feasible limit {} (at least {}), memory is short at position "
      "{}\n",
      number_text(answer.smallest_limit), answer.smallest_limit_bound,
      position);
  const auto alive = alive_at(problem, position);
  text += fmt::format("{} nodes cannot avoid memory there{}\n", alive.size(),
                      alive.empty() ? "" : "; their least bytes:");
  for (std::size_t n = 0; n < alive.size() && n < solver::kMostAliveNodes;
       ++n) {
    text += fmt::format("  {:>16}  node {} {}\n", alive[n].least_bytes,
                        alive[n].node, problem.nodes[alive[n].node].name);
  }
  return text;
}

}  // namespace

std::string answer_text(const ChoiceProblem& problem, const Answer& answer) {
  std::string text = fmt::format("{}\n", to_string(answer.status));
  if (answer.cost < solver::kInfinite) {
    text += fmt::format(
        "cost   {}\nbound  {}\ngap    {:.3g}\npeak   {}{}\n", answer.cost,
        number_text(answer.bound), answer.gap(), answer.peak,
        answer.peak > 0 ? ", near it at" + ranges_text(problem, answer) : "");
    text += fmt::format("choice {}\n", fmt::join(answer.choice, " "));
  }
  if (answer.status == solver::Status::kInfeasible) {
    text += infeasible_text(problem, answer);
  }
  return text + fmt::format("by     {}, {} ticks\n",
                            fmt::join(answer.techniques, ", "), answer.ticks);
}

std::string curve_text(const solver::Curve& curve) {
  std::string text =
      fmt::format("{:>20} {:>20} {:>20} {:>10} {:>9}  {}\n", "limit", "cost",
                  "bound", "gap", "seconds", "status");
  for (const solver::CurvePoint& point : curve.points) {
    const Answer& answer = point.answer;
    text += fmt::format("{:>20} {:>20} {:>20} {:>10} {:>9.2f}  {}\n",
                        point.limit ? std::to_string(*point.limit) : "none",
                        number_text(answer.cost), number_text(answer.bound),
                        answer.cost < solver::kInfinite
                            ? fmt::format("{:.2e}", answer.gap())
                            : "-",
                        point.seconds, to_string(answer.status));
  }
  return text;
}

std::string check_text(const ChoiceProblem& problem,
                       const solver::SolutionCheck& check) {
  std::string text = fmt::format(
      "cost   {}\npeak   {} at position {}\nlimit  {}\n{}\n",
      check.value.cost >= solver::kInfinite ? "infinite"
                                            : std::to_string(check.value.cost),
      check.value.peak, check.value.peak_position,
      problem.limit ? std::to_string(*problem.limit) : "none",
      check.feasible ? "feasible" : "not feasible");
  for (const solver::Claim& claim : check.claims) {
    const bool is_bound = claim.name == "bound";
    text += fmt::format("claim  {} {} {}\n", claim.name, claim.claimed,
                        claim.holds ? "holds"
                        : is_bound  ? "is above the cost"
                                    : "is wrong");
  }
  return text;
}

}  // namespace shardwright::cli
