// Cost as a function of the limit: what a byte of memory is worth.
//
//   CurveOptions options;
//   Curve curve = cost_curve(problem, options);
//   // curve.points: limits ascending, the last one without a limit
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "shardwright/base/json.h"
#include "shardwright/solver/solve.h"

namespace shardwright::solver {

// What is being worked on.
struct CurveStage {
  enum class Kind { kFree, kSmallestLimit, kLimit };
  Kind kind = Kind::kFree;
  std::int64_t limit = 0;  // of kLimit
};

struct CurveOptions {
  // time_limit_s and tick_limit are for all points together: each point gets an
  // equal share of what is left. `start` is not used.
  SolveOptions solve;
  // Limits beside "none"; fewer when there are fewer whole numbers.
  std::int32_t num_limits = 8;
  std::function<void(const CurveStage&)> begins;
};

struct CurvePoint {
  std::optional<std::int64_t> limit;  // no value: memory is free
  Answer answer;
  double seconds = 0;
};

struct Curve {
  // Costs fall and bounds never rise as limits rise. One point only when no
  // limit can be kept or nothing was found in time.
  std::vector<CurvePoint> points;
  Answer smallest;  // of smallest_limit(); unknown when it was not looked for
};

// The free optimum, then limits from the smallest feasible one (as far as
// found) up to the peak of the free optimum, evenly spaced, that peak left out.
// Tight limits go first: a plan found under one is the start under the next.
// What is known of one point bounds the others: a plan serves every higher
// limit, a bound every lower one. The problem's own limit is ignored.
// `problem` must be valid: SW_CHECK.
Curve cost_curve(const ChoiceProblem& problem, const CurveOptions& options);

// {"smallest_limit": ..., "smallest_limit_bound": ..., "points": [{"limit":
// ..., "status": ..., "cost": ..., "bound": ..., "gap": ..., "peak": ...,
// "seconds": ..., "choice": [...]}]}; null for what is not known.
Json curve_to_json(const Curve& curve);

}  // namespace shardwright::solver
