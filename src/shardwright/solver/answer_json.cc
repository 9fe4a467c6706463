#include "shardwright/solver/answer_json.h"

#include <algorithm>

#include "shardwright/solver/evaluate.h"
#include "shardwright/solver/explain_memory.h"
#include "shardwright/solver/problem_json.h"

namespace shardwright::solver {
namespace {

constexpr std::int64_t kNearPeak = 1000;  // one in so many below the peak

Json prices_json(const Answer& answer) {
  Json prices = Json::array();
  for (const PricedRow& row : answer.prices) {
    prices.push_back({{"position", row.position}, {"price", row.price}});
  }
  return prices;
}

Json profile_json(const ChoiceProblem& problem, const Answer& answer) {
  Json ranges = Json::array();
  for (const PositionRange& range :
       ranges_near_peak(memory_profile(problem, answer.choice), kNearPeak)) {
    ranges.push_back(Json::array({range.lo, range.hi}));
  }
  return {{"peak", answer.peak},
          {"within", 1.0 / double(kNearPeak)},
          {"ranges", std::move(ranges)}};
}

Json alive_json(const ChoiceProblem& problem, std::int32_t position) {
  const std::vector<AliveNode> alive = alive_at(problem, position);
  std::int64_t sum = 0;
  Json nodes = Json::array();
  for (const AliveNode& entry : alive) {
    sum += entry.least_bytes;
    if (nodes.size() == kMostAliveNodes) continue;
    nodes.push_back({{"node", entry.node},
                     {"name", problem.nodes[entry.node].name},
                     {"least_bytes", entry.least_bytes}});
  }
  return {{"num_nodes", alive.size()},
          {"least_bytes", sum},
          {"nodes", std::move(nodes)}};
}

}  // namespace

Json answer_to_json(const ChoiceProblem& problem, const Answer& answer) {
  Json json = {{"status", to_string(answer.status)},
               {"techniques", answer.techniques},
               {"ticks", answer.ticks}};
  if (answer.cost < kInfinite) {
    json["cost"] = answer.cost;
    json["bound"] = finite_or_null(answer.bound);
    json["gap"] = answer.gap();
    json["peak"] = answer.peak;
    json["choice"] = answer.choice;
    json["prices"] = prices_json(answer);
    json["profile"] = profile_json(problem, answer);
  }
  if (answer.status == Status::kInfeasible) {
    json["smallest_limit"] = finite_or_null(answer.smallest_limit);
    json["smallest_limit_bound"] = finite_or_null(answer.smallest_limit_bound);
    if (answer.smallest_limit_bound < kInfinite) {
      json["binding_position"] = answer.binding_position;
      json["alive"] = alive_json(problem, answer.binding_position);
    }
  }
  return json;
}

}  // namespace shardwright::solver
