#include "shardwright/solver/curve.h"

#include <algorithm>
#include <chrono>

#include "shardwright/base/check.h"
#include "shardwright/solver/problem_json.h"

namespace shardwright::solver {
namespace {

// Hands out equal shares of the time and the ticks that are left.
class Shares {
 public:
  Shares(const SolveOptions& all, std::int32_t num_shares)
      : all_(all), left_(num_shares), ticks_left_(all.tick_limit) {}

  SolveOptions next() {
    SolveOptions share = all_;
    share.start.clear();
    const double seconds_left = std::max(0.0, all_.time_limit_s - seconds());
    share.time_limit_s = seconds_left / std::max(left_, 1);
    if (ticks_left_ < std::numeric_limits<std::int64_t>::max()) {
      share.tick_limit =
          std::max<std::int64_t>(1, ticks_left_ / std::max(left_, 1));
    }
    --left_;
    return share;
  }
  void used(const Answer& answer) {
    if (ticks_left_ < std::numeric_limits<std::int64_t>::max()) {
      ticks_left_ = std::max<std::int64_t>(0, ticks_left_ - answer.ticks);
    }
  }
  double seconds() const {
    return std::chrono::duration<double>(Clock::now() - start_).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  const SolveOptions& all_;
  std::int32_t left_;
  std::int64_t ticks_left_;
  Clock::time_point start_ = Clock::now();
};

// `count` whole numbers from `low` on, evenly spaced, below `high`.
std::vector<std::int64_t> limits_between(std::int64_t low, std::int64_t high,
                                         std::int32_t count) {
  std::vector<std::int64_t> limits;
  for (std::int32_t k = 0; k < count; ++k) {
    // Sums of bytes are at most kLargestTotal: the product needs more bits.
    __extension__ typedef __int128 Wide;
    const auto limit =
        static_cast<std::int64_t>(low + Wide(high - low) * k / count);
    if (limit >= high) break;
    if (limits.empty() || limits.back() != limit) limits.push_back(limit);
  }
  return limits;
}

CurvePoint solve_point(ChoiceProblem* problem,
                       std::optional<std::int64_t> limit, SolveOptions options,
                       Shares* shares) {
  CurvePoint point;
  const double before = shares->seconds();
  problem->limit = limit;
  point.limit = limit;
  point.answer = solve(*problem, options);
  point.seconds = shares->seconds() - before;
  shares->used(point.answer);
  return point;
}

// What another point told may have closed the gap.
void settle(const SolveOptions& options, Answer* answer) {
  if (answer->gap() <= options.gap) answer->status = Status::kOptimal;
}

// A bound holds for every tighter limit too.
void pass_bounds_down(const SolveOptions& options,
                      std::vector<CurvePoint>* points) {
  for (std::size_t n = points->size(); n-- > 1;) {
    Answer& tighter = (*points)[n - 1].answer;
    tighter.bound = std::max(tighter.bound, (*points)[n].answer.bound);
    SW_CHECK(tighter.bound <= tighter.cost,
             "[solver] curve: a bound is above a cost");
    settle(options, &tighter);
  }
}

// The free optimum may be no better than the plan of the highest limit.
void pass_cost_to_free(const SolveOptions& options, const CurvePoint& highest,
                       CurvePoint* free) {
  Answer& answer = free->answer;
  if (highest.answer.cost >= answer.cost) return;
  answer.cost = highest.answer.cost;
  answer.choice = highest.answer.choice;
  answer.peak = highest.answer.peak;
  settle(options, &answer);
}

void tell(const CurveOptions& options, CurveStage stage) {
  if (options.begins) options.begins(stage);
}

}  // namespace

Curve cost_curve(const ChoiceProblem& problem, const CurveOptions& options) {
  SW_CHECK(options.num_limits >= 1, "[solver] curve: no limits wanted");
  Curve curve;
  ChoiceProblem copy = problem;
  Shares shares(options.solve, options.num_limits + 2);
  tell(options, {CurveStage::Kind::kFree});
  CurvePoint free = solve_point(&copy, std::nullopt, shares.next(), &shares);
  if (free.answer.cost >= kInfinite) {
    curve.points.push_back(std::move(free));
    return curve;
  }
  tell(options, {CurveStage::Kind::kSmallestLimit});
  curve.smallest = smallest_limit(copy, shares.next());
  shares.used(curve.smallest);
  std::vector<std::int32_t> start = curve.smallest.choice;
  if (curve.smallest.smallest_limit < kInfinite) {
    for (const std::int64_t limit :
         limits_between(curve.smallest.smallest_limit, free.answer.peak,
                        options.num_limits)) {
      tell(options, {CurveStage::Kind::kLimit, limit});
      SolveOptions share = shares.next();
      share.start = start;
      curve.points.push_back(solve_point(&copy, limit, share, &shares));
      SW_CHECK(curve.points.back().answer.cost < kInfinite,
               "[solver] curve: a plan was lost");
      start = curve.points.back().answer.choice;
    }
    if (!curve.points.empty()) {
      pass_cost_to_free(options.solve, curve.points.back(), &free);
    }
  }
  curve.points.push_back(std::move(free));
  pass_bounds_down(options.solve, &curve.points);
  return curve;
}

Json curve_to_json(const Curve& curve) {
  Json points = Json::array();
  for (const CurvePoint& point : curve.points) {
    const Answer& answer = point.answer;
    const bool found = answer.cost < kInfinite;
    points.push_back(
        {{"limit", point.limit ? Json(*point.limit) : Json(nullptr)},
         {"status", to_string(answer.status)},
         {"cost", finite_or_null(answer.cost)},
         {"bound", finite_or_null(answer.bound)},
         {"gap", found ? Json(answer.gap()) : Json(nullptr)},
         {"peak", found ? Json(answer.peak) : Json(nullptr)},
         {"seconds", point.seconds},
         {"choice", answer.choice}});
  }
  const bool looked = curve.smallest.smallest_limit < kInfinite;
  return {{"smallest_limit", finite_or_null(curve.smallest.smallest_limit)},
          {"smallest_limit_bound",
           looked ? Json(curve.smallest.smallest_limit_bound) : Json(nullptr)},
          {"points", std::move(points)}};
}

}  // namespace shardwright::solver
