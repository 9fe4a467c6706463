// Memory rows turned into prices: lower bounds in exact integers, plans that
// are cheap at those prices, and the mixture of plans that is the LP optimum.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "shardwright/solver/budget.h"
#include "shardwright/solver/choice_problem.h"
#include "shardwright/solver/dual_ascent.h"
#include "shardwright/solver/elimination.h"

namespace shardwright::solver::internal {

__extension__ typedef __int128 Wide;

// What is minimised: total cost under the limit, or the peak (costs are then
// ignored, only infinite edges count).
enum class Goal { kCost, kPeak };

// Which flat choices may be taken: 1 or 0.
using Allowed = std::vector<std::uint8_t>;

class Relaxation {
 public:
  // Row prices, by row number; rows added later have price 0.
  using Prices = std::vector<double>;

  // What dual ascent had lent to edges; null: start from what is at hand.
  using Start = std::shared_ptr<const DualAscent::Messages>;

  struct Weighted {
    std::int32_t plan = 0;
    double weight = 0;
  };
  struct Outcome {
    // No allowed choice has a lower value (cost or peak). kInfinite: there is
    // no allowed choice without an infinite edge.
    std::int64_t bound = std::numeric_limits<std::int64_t>::lowest();
    Prices prices;                    // that gave the bound
    Start start;                      // and how it was reached
    std::vector<Weighted> mixture;    // near the optimum; weights add to 1
    std::vector<std::int32_t> plans;  // all that were used, for a next start
    bool converged = false;
  };
  struct Effort {
    std::int64_t cutoff = kInfinite;  // a bound this high is high enough
    int rounds = 60;
    int sweeps = 400;         // of dual ascent, per round
    double tolerance = 1e-6;  // relative, between bound and master
    Start start;
    // Told after every round what is proven so far.
    std::function<void(std::int64_t bound)> watch;
  };
  // Called with every plan met (a choice per node without infinite edges).
  using PlanSink = std::function<void(const std::vector<std::int32_t>&)>;

  // The problem must outlive this. Goal::kCost needs a limit. The minimum at
  // given prices is exact where elimination costs no more than some sweeps of
  // dual ascent; else that bounds it.
  Relaxation(const ChoiceProblem& problem, Goal goal, Budget* budget);

  // `plans`: known ones to start from (those not allowed are left out).
  Outcome tighten(const Allowed& allowed, const Prices& start,
                  const std::vector<std::int32_t>& plans, const Effort& effort,
                  const PlanSink& sink);

  // One evaluation at given prices, scaled by `factor`, with every node cost
  // moved by up to +-noise of itself; for more plans, the bound is dropped.
  void sample(const Allowed& allowed, const Prices& prices, double factor,
              double noise, std::uint64_t seed, const PlanSink& sink);

  // Per flat choice a bound on the value of plans that take it. `sweeps`: of
  // dual ascent, where minima are not exact.
  bool choice_bounds(const Allowed& allowed, const Prices& prices,
                     const Start& start, int sweeps,
                     std::vector<std::int64_t>* bounds);

  struct Cheapest {
    bool finished = false;  // false: too much work, see `bound`
    // No plan that keeps the limit costs less than this or the cutoff.
    std::int64_t bound = std::numeric_limits<std::int64_t>::lowest();
    // Costs `bound` and keeps the limit; empty: none is below the cutoff.
    std::vector<std::int32_t> choice;
  };
  // Only where exact(): the cheapest plan below `cutoff` (label_search.h).
  Cheapest cheapest_below(const Allowed& allowed, const Prices& prices,
                          std::int64_t cutoff, std::int64_t most_labels);

  const std::vector<std::int32_t>& plan(std::int32_t index) const {
    return cuts_[index].choice;
  }
  std::int32_t row_position(std::size_t row) const {
    return rows_[row].position;
  }
  std::size_t num_rows() const { return rows_.size(); }
  // Price-weighted bytes of every flat choice.
  std::vector<double> weights(const Prices& prices) const;
  // Minima at given prices are exact, and all that is open is memory.
  bool exact() const { return elimination_ != nullptr; }
  const FlatIndex& index() const { return index_; }

 private:
  struct RowEntry {
    std::int32_t node = 0;
    std::int32_t flat = 0;
    std::int64_t bytes = 0;
  };
  struct Row {
    std::int32_t position = 0;
    std::int64_t most_bytes = 0;  // sum over nodes of the largest choice
    std::vector<RowEntry> entries;
  };
  struct Cut {  // a plan seen as a line: value(prices) <= cost + prices * bytes
    std::vector<std::int32_t> choice;
    double cost = 0;
    // Where minima are only bounded, a plan may be dearer than the bound at its
    // prices. Its line is then lowered to touch it, and raised again, up to
    // here, when another bound turns out to lie above it.
    double most_cost = 0;
    std::vector<double> bytes;  // per row
  };
  struct Point {
    std::int64_t bound = std::numeric_limits<std::int64_t>::lowest();
    std::int32_t cut = -1;  // -1: no allowed plan (bound kInfinite) or stopped
  };
  struct Master {
    double value = 0;
    Prices prices;
    std::vector<Weighted> mixture;
    bool at_cap = false;
    bool ok = false;
  };

  std::int64_t choose_scale() const;
  std::vector<Wide> exact_prices(const Prices& prices) const;
  std::vector<std::int64_t> priced_costs(const Allowed& allowed,
                                         const std::vector<Wide>& exact) const;
  std::int64_t to_bound(std::int64_t total,
                        const std::vector<Wide>& exact) const;
  Point evaluate_at(const Allowed& allowed, const Prices& prices,
                    const DualAscent::Effort& effort, const PlanSink& sink);
  // The minimum at these costs, or a bound on it; `choice` stays empty when the
  // bound came without a plan.
  std::int64_t minimise(const std::vector<std::int64_t>& costs,
                        const DualAscent::Effort& effort,
                        std::vector<std::int32_t>* choice);
  std::int32_t add_cut(std::vector<std::int32_t> choice, double cost);
  double cost_of(const std::vector<std::int32_t>& choice) const;
  // The value of the cut's line at the prices.
  double line_at(const Cut& cut, const Prices& prices) const;
  void raise_lines(const std::vector<std::int32_t>& cuts, const Prices& prices,
                   double bound);
  bool add_row(std::int32_t position);
  bool add_rows_of(const std::vector<double>& profile, double above);
  double row_cap(const Row& row) const;
  // The best prices by the cuts alone, within a box around `center`.
  Master solve_master(const std::vector<std::int32_t>& cuts, double cap_factor,
                      const Prices& center, double radius) const;
  bool matches(const Cut& cut, const Allowed& allowed) const;
  std::vector<double> mixture_profile(
      const std::vector<Weighted>& mixture) const;

  const ChoiceProblem& problem_;
  Goal goal_;
  Budget* budget_;
  FlatIndex index_;
  std::int64_t scale_;
  std::unique_ptr<Elimination> elimination_;  // one of the two
  std::unique_ptr<DualAscent> ascent_;
  std::vector<Row> rows_;
  std::vector<bool> has_row_;  // per position
  std::vector<Cut> cuts_;
  double cost_unit_ = 1;   // size of a typical total cost
  double bytes_unit_ = 1;  // and of a typical total of bytes
};

}  // namespace shardwright::solver::internal
