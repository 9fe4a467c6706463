// Lagrange relaxation with lazy rows. For prices y >= 0 on some positions,
//
//   L(y) = min over plans x of  cost(x) + sum_p y_p (bytes_p(x) - limit)
//
// is a lower bound, and only node costs differ from a problem without memory:
// one elimination per price vector. The best y is found by cutting planes
// (Kelley 1960): every plan met is a line above L, a small LP takes the prices
// with the highest minimum of all lines, and L is evaluated half way between
// them and the best prices so far (in-out separation, Ben-Ameur and Neto
// 2007), which calms the oscillation. 9-20 rounds are usual. At the end the LP
// multipliers say which mixture of plans is the optimum of the relaxation:
// fractions of choices for branching.
//
// Rows come lazily: the positions where plans (or the mixture) exceed the
// limit. A handful out of thousands is enough.
//
// The bound is exact. Costs are multiplied by a whole number S, a price is
// rounded down to n / 2^24 scaled units per byte, and every priced node cost
// and every price times limit is a whole number, the first rounded down and
// the second up. So the bound is a sum of integers whatever the doubles in the
// LP did; and as costs are whole numbers, it is rounded up at the end.
//
// With Goal::kPeak the same machinery bounds the smallest peak: costs are 0,
// prices add to at most 1, and L(y) = min_x sum_p y_p bytes_p(x) <= peak.
#include "shardwright/solver/relaxation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "shardwright/base/check.h"
#include "shardwright/solver/evaluate.h"
#include "shardwright/solver/label_search.h"
#include "shardwright/solver/small_lp.h"

namespace shardwright::solver::internal {
namespace {

constexpr int kPriceBits = 24;
// Scaled totals: costs stay below 2^48, each priced row below 2^54; with at
// most kMostRows rows the sum stays below kForbidden = 2^60.
constexpr double kScaledCosts = 281474976710656.0;    // 2^48
constexpr double kScaledBytes = 18014398509481984.0;  // 2^54
constexpr std::size_t kMostRows = 40;
constexpr std::size_t kMostPeakRows = 120;  // prices add to one: no such limit
constexpr std::size_t kMostCutsInMaster = 100;
// With more rows than this, steps stay inside a box around the best prices.
constexpr std::size_t kRowsWithoutBox = 6;
constexpr double kFirstRadius = 0.1;
constexpr double kHugeRadius = 1e12;
constexpr double kHugeCost = 1e300;
// Dual ascent goes on while a batch of sweeps closes this part of what better
// prices could gain, or of the bound as long as nobody knows that.
constexpr double kPartOfGain = 0.01;
constexpr double kPartOfBound = 1e-5;
// Elimination pays when it costs no more than these.
constexpr double kSweepsOfAscent = 200;
// With more rows hardly a label beats another.
constexpr std::size_t kMostLabelRows = 8;

Wide floor_shift(Wide value, int bits) { return value >> bits; }
Wide ceil_shift(Wide value, int bits) {
  return (value + ((Wide(1) << bits) - 1)) >> bits;
}
Wide ceil_divide(Wide value, Wide by) {
  const Wide quotient = value / by;
  return quotient + (value % by > 0 ? 1 : 0);
}

double total_cost_size(const ChoiceProblem& problem) {
  double sum = 1;
  for (const Node& node : problem.nodes) {
    double most = 0;
    for (const Choice& choice : node.choices) {
      most = std::max(most, std::abs(double(choice.cost)));
    }
    sum += most;
  }
  for (const Edge& edge : problem.edges) {
    double most = 0;
    for (const std::int64_t cost : edge.table->cost) {
      if (cost < kInfinite) most = std::max(most, std::abs(double(cost)));
    }
    sum += most;
  }
  return sum;
}

// splitmix64: a fixed, seedable hash for the tie-breaking noise.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// Drops the oldest cut that the last optimum does not rest on.
void forget_cut(const std::vector<Relaxation::Weighted>& mixture,
                std::vector<std::int32_t>* cuts) {
  for (std::size_t n = 0; n + 1 < cuts->size(); ++n) {
    const bool needed =
        std::any_of(mixture.begin(), mixture.end(),
                    [&](const auto& part) { return part.plan == (*cuts)[n]; });
    if (needed) continue;
    cuts->erase(cuts->begin() + static_cast<std::ptrdiff_t>(n));
    return;
  }
}

}  // namespace

Relaxation::Relaxation(const ChoiceProblem& problem, Goal goal, Budget* budget)
    : problem_(problem),
      goal_(goal),
      budget_(budget),
      index_(problem),
      scale_(choose_scale()),
      has_row_(problem.num_positions, false) {
  const std::int64_t edge_scale = goal == Goal::kCost ? scale_ : 0;
  double cells = double(index_.total());
  for (const Edge& edge : problem.edges) {
    cells += double(edge.table->cost.size());
  }
  elimination_ = std::make_unique<Elimination>(
      problem, edge_scale,
      Elimination::Limits{budget->options().table_cells,
                          kSweepsOfAscent * 2 * cells});
  budget_->charge(elimination_->num_cells() + index_.total());
  if (!elimination_->fits()) {
    elimination_.reset();
    ascent_ = std::make_unique<DualAscent>(problem, edge_scale, budget);
  }
  if (problem.limit) {
    bytes_unit_ = std::max(1.0, double(*problem.limit));
  } else {
    double sum = 1;
    for (const Node& node : problem.nodes) {
      for (const MemoryInterval& interval : node.choices[0].intervals) {
        sum += double(interval.bytes);
      }
    }
    bytes_unit_ = sum;
  }
}

std::int64_t Relaxation::choose_scale() const {
  double room = 0;
  if (goal_ == Goal::kCost) {
    room = kScaledCosts / total_cost_size(problem_);
  } else {
    double bytes = 1;
    for (const Node& node : problem_.nodes) {
      double most = 0;
      for (const Choice& choice : node.choices) {
        double sum = 0;
        for (const auto& interval : choice.intervals) sum += interval.bytes;
        most = std::max(most, sum);
      }
      bytes += most;
    }
    room = kScaledBytes / bytes;
  }
  // A power of two keeps products exact in doubles as well.
  std::int64_t scale = 1;
  while (scale < (std::int64_t{1} << 40) && double(scale) * 2 <= room) {
    scale *= 2;
  }
  return scale;
}

double Relaxation::row_cap(const Row& row) const {
  return kScaledBytes /
         (double(std::max<std::int64_t>(1, row.most_bytes)) * double(scale_));
}

std::vector<Wide> Relaxation::exact_prices(const Prices& prices) const {
  std::vector<Wide> out(rows_.size(), 0);
  const double unit = double(scale_) * double(std::int64_t{1} << kPriceBits);
  for (std::size_t r = 0; r < rows_.size() && r < prices.size(); ++r) {
    const double price = goal_ == Goal::kCost
                             ? std::min(prices[r], row_cap(rows_[r]))
                             : std::min(prices[r], 1.0);
    if (price > 0) out[r] = static_cast<Wide>(price * unit);
  }
  if (goal_ == Goal::kPeak) {
    // Prices must add to at most one; rounding in the LP may exceed it.
    Wide sum = 0;
    for (const Wide price : out) sum += price;
    const Wide one = Wide(scale_) << kPriceBits;
    if (sum > one) {
      for (Wide& price : out)
        price = Wide(double(price) / double(sum) * double(one) * (1 - 1e-12));
      sum = 0;
      for (const Wide price : out) sum += price;
      if (sum > one) std::fill(out.begin(), out.end(), Wide(0));
    }
  }
  return out;
}

std::vector<std::int64_t> Relaxation::priced_costs(
    const Allowed& allowed, const std::vector<Wide>& exact) const {
  std::vector<std::int64_t> out(index_.total(), 0);
  if (goal_ == Goal::kCost) {
    std::size_t flat = 0;
    for (const Node& node : problem_.nodes) {
      for (const Choice& choice : node.choices) {
        out[flat++] = choice.cost * scale_;
      }
    }
  }
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    if (exact[r] == 0) continue;
    for (const RowEntry& entry : rows_[r].entries) {
      out[entry.flat] += static_cast<std::int64_t>(
          floor_shift(exact[r] * entry.bytes, kPriceBits));
    }
  }
  for (std::size_t flat = 0; flat < out.size(); ++flat) {
    if (!allowed[flat]) out[flat] = kInfinite;
  }
  return out;
}

std::int64_t Relaxation::to_bound(std::int64_t total,
                                  const std::vector<Wide>& exact) const {
  Wide value = total;
  if (goal_ == Goal::kCost) {
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      value -= ceil_shift(exact[r] * *problem_.limit, kPriceBits);
    }
  }
  value = ceil_divide(value, scale_);
  constexpr Wide kLowest = std::numeric_limits<std::int64_t>::lowest();
  return static_cast<std::int64_t>(std::max(value, kLowest));
}

double Relaxation::cost_of(const std::vector<std::int32_t>& choice) const {
  if (goal_ == Goal::kPeak) return 0;
  double sum = 0;
  for (std::size_t i = 0; i < choice.size(); ++i) {
    sum += double(problem_.nodes[i].choices[choice[i]].cost);
  }
  for (const Edge& edge : problem_.edges) {
    sum += double(edge.table->at(choice[edge.a], choice[edge.b]));
  }
  return sum;
}

std::int32_t Relaxation::add_cut(std::vector<std::int32_t> choice,
                                 double cost) {
  Cut cut;
  cut.bytes.assign(rows_.size(), 0);
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    for (const RowEntry& entry : rows_[r].entries) {
      if (choice[entry.node] != entry.flat - index_.first[entry.node]) continue;
      cut.bytes[r] += double(entry.bytes);
    }
  }
  cut.cost = cost;
  cut.most_cost = cost;
  cut.choice = std::move(choice);
  cost_unit_ = std::max(cost_unit_, std::abs(cut.cost));
  cuts_.push_back(std::move(cut));
  return static_cast<std::int32_t>(cuts_.size()) - 1;
}

double Relaxation::line_at(const Cut& cut, const Prices& prices) const {
  const double limit = goal_ == Goal::kCost ? double(*problem_.limit) : 0.0;
  double value = cut.cost;
  for (std::size_t r = 0; r < prices.size() && r < cut.bytes.size(); ++r) {
    value += prices[r] * (cut.bytes[r] - limit);
  }
  return value;
}

void Relaxation::raise_lines(const std::vector<std::int32_t>& cuts,
                             const Prices& prices, double bound) {
  for (const std::int32_t c : cuts) {
    Cut& cut = cuts_[c];
    const double below = bound - line_at(cut, prices);
    if (below > 0) cut.cost = std::min(cut.most_cost, cut.cost + below);
  }
}

std::int64_t Relaxation::minimise(const std::vector<std::int64_t>& costs,
                                  const DualAscent::Effort& effort,
                                  std::vector<std::int32_t>* choice) {
  choice->clear();
  if (elimination_) return elimination_->minimise(costs, choice, budget_);
  const std::int64_t total = ascent_->raise(costs, effort);
  if (total < kForbidden && !ascent_->decode(choice)) choice->clear();
  return total;
}

Relaxation::Point Relaxation::evaluate_at(const Allowed& allowed,
                                          const Prices& prices,
                                          const DualAscent::Effort& effort,
                                          const PlanSink& sink) {
  const std::vector<Wide> exact = exact_prices(prices);
  const std::vector<std::int64_t> costs = priced_costs(allowed, exact);
  budget_->charge(static_cast<std::int64_t>(costs.size()) * 2);
  std::vector<std::int32_t> choice;
  const std::int64_t total = minimise(costs, effort, &choice);
  Point point;
  if (budget_->spent() && elimination_) return point;
  if (total >= kForbidden) {
    point.bound = kInfinite;
    return point;
  }
  point.bound = to_bound(total, exact);
  const bool is_plan = !choice.empty() || problem_.nodes.empty();
  if (is_plan) {
    sink(choice);
    point.cut = add_cut(choice, cost_of(choice));
  } else {
    ascent_->best_by_node(&choice);
    point.cut = add_cut(choice, 0);
    cuts_.back().most_cost = kHugeCost;
  }
  if (ascent_) {
    Cut& cut = cuts_.back();
    const double above = line_at(cut, prices) - double(point.bound);
    if (!is_plan || above > 0) cut.cost -= above;
  }
  return point;
}

bool Relaxation::add_row(std::int32_t position) {
  const std::size_t most_rows =
      goal_ == Goal::kCost ? kMostRows : kMostPeakRows;
  if (has_row_[position] || rows_.size() >= most_rows) return false;
  has_row_[position] = true;
  Row row;
  row.position = position;
  for (std::size_t i = 0; i < problem_.nodes.size(); ++i) {
    std::int64_t most = 0;
    const auto& choices = problem_.nodes[i].choices;
    for (std::size_t k = 0; k < choices.size(); ++k) {
      const std::int64_t bytes = bytes_at(choices[k], position);
      if (bytes == 0) continue;
      most = std::max(most, bytes);
      row.entries.push_back({static_cast<std::int32_t>(i),
                             index_.first[i] + static_cast<std::int32_t>(k),
                             bytes});
    }
    row.most_bytes += most;
  }
  for (Cut& cut : cuts_) {
    double sum = 0;
    for (std::size_t i = 0; i < problem_.nodes.size(); ++i) {
      sum +=
          double(bytes_at(problem_.nodes[i].choices[cut.choice[i]], position));
    }
    cut.bytes.push_back(sum);
  }
  rows_.push_back(std::move(row));
  budget_->charge(index_.total());
  return true;
}

// Adds the highest position and up to two more that are far from it and from
// each other: neighbours in time say the same thing.
bool Relaxation::add_rows_of(const std::vector<double>& profile, double above) {
  bool added = false;
  std::vector<std::int32_t> taken;
  const auto count = static_cast<std::int32_t>(profile.size());
  const std::int32_t apart = std::max(1, count / 16);
  for (int n = 0; n < 3; ++n) {
    std::int32_t best = -1;
    for (std::int32_t p = 0; p < count; ++p) {
      if (profile[p] <= above || has_row_[p]) continue;
      if (best >= 0 && profile[p] <= profile[best]) continue;
      const bool near = std::any_of(
          taken.begin(), taken.end(),
          [&](std::int32_t other) { return std::abs(other - p) < apart; });
      if (!near) best = p;
    }
    if (best < 0) break;
    added = add_row(best) || added;
    taken.push_back(best);
  }
  return added;
}

bool Relaxation::matches(const Cut& cut, const Allowed& allowed) const {
  for (std::size_t i = 0; i < cut.choice.size(); ++i) {
    if (!allowed[index_.first[i] + cut.choice[i]]) return false;
  }
  return true;
}

Relaxation::Master Relaxation::solve_master(
    const std::vector<std::int32_t>& cuts, double cap_factor,
    const Prices& center, double radius) const {
  // Prices are best + step, and the LP's variables are the value above the
  // model at the lowest corner of the box, then one price per row above that
  // corner, in units of cost_unit_ / bytes_unit_.
  const bool is_cost = goal_ == Goal::kCost;
  const double limit = is_cost ? double(*problem_.limit) : 0.0;
  const double unit = is_cost ? cost_unit_ / bytes_unit_ : 1.0;
  const double value_unit = is_cost ? cost_unit_ : bytes_unit_;
  const std::size_t num_rows = rows_.size();
  std::vector<double> low(num_rows, 0.0);
  std::vector<double> high(num_rows, 1.0);
  Master master;
  for (std::size_t r = 0; r < num_rows; ++r) {
    const double at = r < center.size() ? center[r] / unit : 0.0;
    low[r] = std::max(0.0, at - radius);
    const double most = row_cap(rows_[r]) / unit;
    const double cap = is_cost ? std::min(cap_factor, most) : 1.0;
    high[r] = std::max(low[r], std::min(cap, at + radius));
  }
  SmallLp lp;
  lp.gain.assign(num_rows + 1, 0.0);
  lp.gain[0] = 1;
  std::vector<double> at_low;
  for (const std::int32_t c : cuts) {
    std::vector<double> row(num_rows + 1, 0.0);
    row[0] = 1;
    double value = cuts_[c].cost / value_unit;
    for (std::size_t r = 0; r < num_rows; ++r) {
      const double bytes = (cuts_[c].bytes[r] - limit) / bytes_unit_;
      row[r + 1] = -bytes;
      value += low[r] * bytes;
    }
    lp.rows.push_back(std::move(row));
    at_low.push_back(value);
  }
  const double lowest = *std::min_element(at_low.begin(), at_low.end());
  for (const double value : at_low) lp.bounds.push_back(value - lowest);
  double low_sum = 0;
  for (std::size_t r = 0; r < num_rows; ++r) {
    low_sum += low[r];
    if (!is_cost && radius >= 1) continue;  // the sum says it already
    std::vector<double> row(num_rows + 1, 0.0);
    row[r + 1] = 1;
    lp.rows.push_back(std::move(row));
    lp.bounds.push_back(high[r] - low[r]);
  }
  if (!is_cost) {
    std::vector<double> row(num_rows + 1, 1.0);
    row[0] = 0;
    lp.rows.push_back(std::move(row));
    lp.bounds.push_back(std::max(0.0, 1.0 - low_sum));
  }
  const SmallLpAnswer answer = maximise(lp);
  master.ok = answer.optimal;
  if (!master.ok) return master;
  master.value = (lowest + answer.value) * value_unit;
  for (std::size_t r = 0; r < num_rows; ++r) {
    const double price = low[r] + answer.x[r + 1];
    master.prices.push_back(price * unit);
    if (is_cost && price >= cap_factor * (1 - 1e-9) &&
        cap_factor < row_cap(rows_[r]) / unit) {
      master.at_cap = true;
    }
  }
  double sum = 0;
  for (std::size_t j = 0; j < cuts.size(); ++j) sum += answer.dual[j];
  for (std::size_t j = 0; sum > 0 && j < cuts.size(); ++j) {
    if (answer.dual[j] > 1e-9 * sum) {
      master.mixture.push_back({cuts[j], answer.dual[j] / sum});
    }
  }
  return master;
}

std::vector<double> Relaxation::mixture_profile(
    const std::vector<Weighted>& mixture) const {
  std::vector<double> out(problem_.num_positions, 0.0);
  for (const Weighted& part : mixture) {
    const auto profile = memory_profile(problem_, cuts_[part.plan].choice);
    for (std::size_t p = 0; p < out.size(); ++p) {
      out[p] += part.weight * double(profile[p]);
    }
  }
  return out;
}

Relaxation::Outcome Relaxation::tighten(const Allowed& allowed,
                                        const Prices& start,
                                        const std::vector<std::int32_t>& plans,
                                        const Effort& effort,
                                        const PlanSink& sink) {
  Outcome out;
  out.prices = start;
  std::vector<std::int32_t>& cuts = out.plans;
  for (const std::int32_t c : plans) {
    if (matches(cuts_[c], allowed)) cuts.push_back(c);
  }
  budget_->charge(static_cast<std::int64_t>(plans.size()) * index_.num_nodes());
  Prices trial = start;
  if (ascent_ && effort.start) ascent_->set_messages(*effort.start);
  double cap_factor = 4;
  double radius = kFirstRadius;
  double expected = 0;      // rise of the bound that the last master promised
  std::int64_t before = 0;  // bound of the round before, if there is one
  for (int round = 0; round < effort.rounds; ++round) {
    trial.resize(rows_.size(), 0.0);
    DualAscent::Effort ascent;
    ascent.sweeps = effort.sweeps;
    const double step_gain = round > 0 && expected > 0
                                 ? kPartOfGain * expected
                                 : kPartOfBound * (cost_unit_ + 1);
    ascent.least_gain = step_gain * double(scale_);
    const Point point = evaluate_at(allowed, trial, ascent, sink);
    if (budget_->spent() && elimination_) return out;
    if (point.bound > out.bound) {
      out.bound = point.bound;
      out.prices = trial;
      if (ascent_) {
        out.start =
            std::make_shared<const DualAscent::Messages>(ascent_->messages());
      }
    }
    if (effort.watch) effort.watch(out.bound);
    if (point.cut < 0 || out.bound >= effort.cutoff) return out;
    const auto profile = memory_profile(problem_, cuts_[point.cut].choice);
    const std::vector<double> as_double(profile.begin(), profile.end());
    const double peak =
        profile.empty() ? 0
                        : *std::max_element(as_double.begin(), as_double.end());
    const double above =
        goal_ == Goal::kCost ? double(*problem_.limit) : peak * (1 - 1e-9);
    add_rows_of(as_double, above);
    raise_lines(cuts, trial, double(point.bound));
    cuts.push_back(point.cut);
    if (budget_->spent()) return out;
    if (cuts.size() > kMostCutsInMaster) forget_cut(out.mixture, &cuts);
    const double value_unit = goal_ == Goal::kCost ? cost_unit_ : bytes_unit_;
    // Few rows: the whole space, and half way towards it. Many: a box that
    // grows with success.
    const bool boxed = rows_.size() > kRowsWithoutBox;
    if (boxed && round > 0) {
      const double gain = double(out.bound - before);
      if (gain > 0.3 * expected) {
        radius = std::min(1.0, radius * 1.6);
      } else if (gain <= 0) {
        radius = std::max(1e-4, radius * 0.7);
      }
    }
    const double reach = boxed ? radius : kHugeRadius;
    Master master = solve_master(cuts, cap_factor, out.prices, reach);
    while (master.ok && master.at_cap &&
           master.value - double(out.bound) <=
               effort.tolerance * value_unit + 0.5) {
      cap_factor *= 16;
      master = solve_master(cuts, cap_factor, out.prices, reach);
    }
    budget_->charge(static_cast<std::int64_t>(cuts.size() * rows_.size() * 50));
    if (!master.ok) return out;
    out.mixture = master.mixture;
    const double open = master.value - double(out.bound);
    if (open <= effort.tolerance * value_unit) {
      const double high = goal_ == Goal::kCost
                              ? double(*problem_.limit) * (1 + 1e-7)
                              : master.value * (1 + 1e-7);
      if (!add_rows_of(mixture_profile(master.mixture), high)) {
        out.converged = true;
        return out;
      }
      master = solve_master(cuts, cap_factor, out.prices, reach);
      if (!master.ok) return out;
    }
    before = out.bound;
    expected = master.value - double(out.bound);
    master.prices.resize(rows_.size(), 0.0);
    Prices best = out.prices;
    best.resize(rows_.size(), 0.0);
    trial.resize(rows_.size());
    const double step = boxed ? 1.0 : 0.5;
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      trial[r] = best[r] + step * (master.prices[r] - best[r]);
    }
  }
  return out;
}

void Relaxation::sample(const Allowed& allowed, const Prices& prices,
                        double factor, double noise, std::uint64_t seed,
                        const PlanSink& sink) {
  Prices scaled = prices;
  scaled.resize(rows_.size(), 0.0);
  for (double& price : scaled) price *= factor;
  const std::vector<Wide> exact = exact_prices(scaled);
  std::vector<std::int64_t> costs = priced_costs(allowed, exact);
  if (noise > 0) {
    for (std::size_t flat = 0; flat < costs.size(); ++flat) {
      if (costs[flat] >= kForbidden) continue;
      const double unit =
          double(mix(seed * 0x100000001b3ULL + flat) >> 11) * 0x1.0p-52 - 1.0;
      costs[flat] +=
          static_cast<std::int64_t>(double(costs[flat]) * noise * unit);
    }
  }
  std::vector<std::int32_t> choice;
  DualAscent::Effort effort;
  effort.least_gain = kPartOfBound * cost_unit_ * double(scale_);
  minimise(costs, effort, &choice);
  if (!budget_->spent() && !choice.empty()) sink(choice);
}

bool Relaxation::choice_bounds(const Allowed& allowed, const Prices& prices,
                               const Start& start, int sweeps,
                               std::vector<std::int64_t>* bounds) {
  const std::vector<Wide> exact = exact_prices(prices);
  const std::vector<std::int64_t> costs = priced_costs(allowed, exact);
  if (ascent_) {
    DualAscent::Effort effort;
    effort.sweeps = sweeps;
    effort.least_gain = kPartOfBound / 100 * cost_unit_ * double(scale_);
    if (start) ascent_->set_messages(*start);
    ascent_->raise(costs, effort);
    if (budget_->spent() || !ascent_->choice_bounds(bounds)) return false;
  } else {
    std::vector<std::int32_t> choice;
    const std::int64_t total = elimination_->minimise(costs, &choice, budget_);
    if (budget_->spent() || total >= kForbidden) return false;
    if (!elimination_->marginals(costs, bounds, budget_)) return false;
  }
  for (std::int64_t& bound : *bounds) {
    if (bound < kForbidden) bound = to_bound(bound, exact);
  }
  return true;
}

// Rows with a price first, then the highest position of the plan found, as long
// as that is above the limit.
Relaxation::Cheapest Relaxation::cheapest_below(const Allowed& allowed,
                                                const Prices& prices,
                                                std::int64_t cutoff,
                                                std::int64_t most_labels) {
  SW_CHECK(elimination_ != nullptr && goal_ == Goal::kCost,
           "[solver] labels need exact minima of costs");
  const std::vector<Wide> exact = exact_prices(prices);
  const std::vector<std::int64_t> priced = priced_costs(allowed, exact);
  const std::vector<std::int64_t> plain =
      priced_costs(allowed, std::vector<Wide>(exact.size(), 0));
  Cheapest out;
  std::vector<std::int32_t> choice;
  const std::int64_t total = elimination_->minimise(priced, &choice, budget_);
  if (budget_->spent()) return out;
  if (total >= kForbidden) {
    out.finished = true;
    return out;
  }
  LabelTask task;
  task.cost = plain;
  task.priced_cost = priced;
  task.limit = *problem_.limit;
  task.most_labels = most_labels;
  // to_bound(value) < cutoff, solved for the value.
  Wide most = Wide(cutoff - 1) * scale_;
  std::vector<bool> has_labels(rows_.size(), false);
  const auto add = [&](std::size_t r) {
    task.bytes.emplace_back(index_.total(), 0);
    for (const RowEntry& entry : rows_[r].entries) {
      task.bytes.back()[entry.flat] = entry.bytes;
    }
    has_labels.resize(rows_.size(), false);
    has_labels[r] = true;
  };
  for (std::size_t r = 0; r < exact.size(); ++r) {
    most += ceil_shift(exact[r] * *problem_.limit, kPriceBits);
    if (exact[r] > 0) add(r);
  }
  task.most_value =
      static_cast<std::int64_t>(std::min<Wide>(most, kForbidden - 1));
  while (true) {
    LabelResult found = search_labels(elimination_.get(), task, budget_);
    if (!found.finished) return out;
    out.finished = true;
    // There is no such plan; or it needs less memory than there is, and costs
    // more than its value.
    if (found.cost >= kInfinite || found.cost / scale_ >= cutoff) return out;
    out.bound = found.cost / scale_;
    const Evaluation value = evaluate(problem_, found.choice);
    if (value.feasible(problem_.limit)) {
      out.choice = std::move(found.choice);
      return out;
    }
    out.finished = false;
    add_row(value.peak_position);
    std::size_t row = 0;
    while (row < rows_.size() && rows_[row].position != value.peak_position) {
      ++row;
    }
    if (row == rows_.size() || task.bytes.size() >= kMostLabelRows) return out;
    add(row);
  }
}

std::vector<double> Relaxation::weights(const Prices& prices) const {
  std::vector<double> out(index_.total(), 0.0);
  for (std::size_t r = 0; r < rows_.size() && r < prices.size(); ++r) {
    if (prices[r] <= 0) continue;
    for (const RowEntry& entry : rows_[r].entries) {
      out[entry.flat] += prices[r] * double(entry.bytes);
    }
  }
  return out;
}

}  // namespace shardwright::solver::internal
