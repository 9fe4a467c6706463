// The order of techniques:
//
//   presolve -> prices and plans at the root -> recombination
//     no feasible choice yet? bound and lower the peak until one is found or
//       none can exist
//     gap still open? neighbourhoods of the best choice
//     tables had to be split? small ones first, larger ones for the bound later
//     gap still open? forbid every choice whose own bound is too high, presolve
//       what is left, and start again on the smaller problem; after that,
//       branch and bound
//   -> the answer is read back and added up from the problem as given
#include "shardwright/solver/solve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "shardwright/base/check.h"
#include "shardwright/solver/branch.h"
#include "shardwright/solver/dive.h"
#include "shardwright/solver/evaluate.h"
#include "shardwright/solver/least_peak.h"
#include "shardwright/solver/neighbourhood.h"
#include "shardwright/solver/presolve.h"

namespace shardwright::solver {
namespace {

using internal::Allowed;
using internal::branch_and_bound;
using internal::Budget;
using internal::cutoff_of;
using internal::dive;
using internal::Goal;
using internal::is_closed;
using internal::least_peak;
using internal::Neighbourhood;
using internal::Presolved;
using internal::Primal;
using internal::Relaxation;
using internal::SearchLimits;
using internal::SearchResult;

// Labels that may be made before the first branching, and four times as many
// each time it has not helped.
constexpr std::int64_t kFirstLabels = 1'000'000;
// Branch and bound nodes before the first look back.
constexpr std::int64_t kFirstSlice = 64;
// How closely an infeasible problem's smallest feasible limit is looked for.
constexpr double kGapOfExplanation = 0.01;
constexpr std::int64_t kNodesOfExplanation = 40;
// A choice that may be this part above the least possible is a poor one.
constexpr double kPoorGap = 0.05;
// Rounds of "forbid by bounds, presolve again" before branching.
constexpr int kMostReductions = 5;
constexpr int kSweepsOfBounds = 2000;
// Dives at the root of each problem, as long as they find better choices.
constexpr std::uint64_t kDives = 4;
// A round that forbids less than this share of the choices ends them.
constexpr double kWorthReducing = 0.05;

// The result on some problem, in that problem's nodes and positions.
struct Partial {
  std::int64_t bound = std::numeric_limits<std::int64_t>::lowest();
  std::int64_t value = kInfinite;
  std::vector<std::int32_t> choice;
  std::vector<PricedRow> prices;
};

struct PeakPartial {
  Partial peak;
  std::int32_t binding_position = 0;
};

void note(std::vector<std::string>* techniques, const std::string& text) {
  if (std::find(techniques->begin(), techniques->end(), text) ==
      techniques->end()) {
    techniques->push_back(text);
  }
}

// The same nodes and infinite edges, all costs zero, no limit.
ChoiceProblem without_costs(const ChoiceProblem& problem) {
  ChoiceProblem out = problem;
  out.limit.reset();
  for (Node& node : out.nodes) {
    for (Choice& choice : node.choices) {
      choice.cost = choice.cost >= kInfinite ? kInfinite : 0;
    }
  }
  std::map<const EdgeTable*, std::shared_ptr<const EdgeTable>> copies;
  for (Edge& edge : out.edges) {
    auto& copy = copies[edge.table.get()];
    if (copy == nullptr) {
      auto table = std::make_shared<EdgeTable>(*edge.table);
      for (std::int64_t& cost : table->cost) {
        cost = cost >= kInfinite ? kInfinite : 0;
      }
      copy = std::move(table);
    }
    edge.table = copy;
  }
  return out;
}

std::vector<PricedRow> priced_rows(const Relaxation& relaxation,
                                   const Relaxation::Prices& prices,
                                   const std::vector<std::int32_t>& positions) {
  std::vector<PricedRow> out;
  for (std::size_t r = 0; r < prices.size(); ++r) {
    if (prices[r] <= 0) continue;
    out.push_back({positions[relaxation.row_position(r)], prices[r]});
  }
  std::sort(out.begin(), out.end(), [](const auto& left, const auto& right) {
    return left.position < right.position;
  });
  return out;
}

// Work on neighbourhoods: as much as was spent before, and at least this.
constexpr std::int64_t kLeastTicksOfNeighbourhoods = 400'000'000;

std::int64_t ticks_of_neighbourhoods(const Budget& budget) {
  return std::max(kLeastTicksOfNeighbourhoods, budget.ticks());
}

// Neighbourhoods of the best choice. False: there is none, or they are off.
bool improve(const ChoiceProblem& problem, Goal goal, Primal* primal,
             Budget* budget) {
  if (primal->choice().empty() || !budget->options().use_neighbourhoods) {
    return false;
  }
  std::vector<std::int32_t> choice = primal->choice();
  Neighbourhood search(problem, goal, budget);
  if (search.improve(&choice, ticks_of_neighbourhoods(*budget))) {
    primal->offer(choice);
  }
  return true;
}

PeakPartial minimise_peak(const ChoiceProblem& problem, SearchLimits limits,
                          Budget* budget) {
  PeakPartial out;
  const ChoiceProblem free = without_costs(problem);
  const Presolved small = internal::presolve(free, {}, budget);
  if (small.infeasible) {
    out.peak.bound = kInfinite;
    return out;
  }
  Relaxation relaxation(small.problem, Goal::kPeak, budget);
  Primal primal(small.problem, Goal::kPeak, budget);
  const Allowed all(relaxation.index().total(), 1);
  SearchResult result =
      internal::search_root(&relaxation, &primal, all, limits, budget);
  for (std::uint64_t n = 0; n < kDives && !result.finished; ++n) {
    if (budget->spent()) break;
    const bool better = dive(&relaxation, &primal, all, result, limits,
                             budget->options().seed * kDives + n, budget);
    result.finished = is_closed(result.bound, primal, limits);
    if (!better) break;
  }
  if (!result.finished) {
    improve(small.problem, Goal::kPeak, &primal, budget);
    result.finished = is_closed(result.bound, primal, limits);
  }
  if (!result.finished && !budget->spent()) {
    result =
        branch_and_bound(&relaxation, &primal, all, result, limits, budget);
  }
  out.peak.bound = result.bound;
  out.peak.value = primal.value();
  if (!primal.choice().empty() || problem.nodes.empty()) {
    out.peak.choice = small.undo(primal.choice());
    out.binding_position = evaluate(problem, out.peak.choice).peak_position;
  }
  out.peak.prices = priced_rows(relaxation, result.prices, small.positions);
  double highest = 0;
  for (const PricedRow& row : out.peak.prices) {
    if (row.price > highest) out.binding_position = row.position;
    highest = std::max(highest, row.price);
  }
  return out;
}

// What solve_core() learns about a limit that cannot be kept.
struct Infeasibility {
  bool proven = false;
  bool looked = false;
  PeakPartial peak;
};

class CoreSolver {
 public:
  CoreSolver(Budget* budget, std::vector<std::string>* techniques)
      : budget_(budget), techniques_(techniques) {}

  Infeasibility infeasibility;

  // `known`: value of a choice found before (kInfinite: none); `bound`: no
  // choice is better, as is known from before.
  Partial solve_core(const ChoiceProblem& core, std::int64_t known,
                     std::int64_t bound, std::int64_t offset, int depth) {
    Primal primal(core, Goal::kCost, budget_);
    primal.know_value(known);
    if (least_peak(core) > *core.limit) {
      // Nothing better than what is known, or nothing at all.
      if (!primal.found()) find_feasible(core, &primal);
      Partial none;
      none.bound = kInfinite;
      none.value = primal.value();
      return none;
    }
    Relaxation relaxation(core, Goal::kCost, budget_);
    const Allowed allowed(relaxation.index().total(), 1);
    SearchLimits limits;
    limits.gap = budget_->options().gap;
    limits.offset = offset;
    limits.known_bound = bound;
    SearchResult result =
        search_root(&relaxation, &primal, allowed, limits, budget_);
    note(techniques_, !relaxation.exact()          ? "dual ascent"
                      : relaxation.num_rows() == 0 ? "exact elimination"
                                                   : "prices on memory rows");
    search_plans(&relaxation, &primal, allowed, limits, &result);
    if (!primal.found() && !budget_->spent() && result.bound < kInfinite) {
      if (!find_feasible(core, &primal)) {
        return partial(relaxation, primal, result);
      }
      result = search_root(&relaxation, &primal, allowed, limits, budget_);
    }
    if (result.finished || budget_->spent()) {
      return partial(relaxation, primal, result);
    }
    return close_gap(core, &relaxation, &primal, allowed, limits, result,
                     depth);
  }

 private:
  // Plans that the root's prices and recombination did not find.
  void search_plans(Relaxation* relaxation, Primal* primal,
                    const Allowed& allowed, const SearchLimits& limits,
                    SearchResult* result) {
    for (std::uint64_t n = 0; n < kDives && !budget_->spent(); ++n) {
      if (is_closed(result->bound, *primal, limits)) break;
      note(techniques_, "dives");
      const bool better = dive(relaxation, primal, allowed, *result, limits,
                               budget_->options().seed * kDives + n, budget_);
      if (!better && primal->found()) break;
      primal->recombine();
    }
    result->finished = is_closed(result->bound, *primal, limits);
  }

  void improve_choice(const ChoiceProblem& core, Primal* primal) {
    if (budget_->spent()) return;
    if (improve(core, Goal::kCost, primal, budget_)) {
      note(techniques_, "neighbourhoods");
    }
  }

  // From the cheap to the dear: choices whose own bound is too high go, and
  // what is left is solved anew; labels; neighbourhoods; branching, in slices,
  // because a better choice lets bounds forbid more.
  Partial close_gap(const ChoiceProblem& core, Relaxation* relaxation,
                    Primal* primal, const Allowed& allowed, SearchLimits limits,
                    SearchResult result, int depth) {
    std::int64_t reduced_for = kInfinite;
    std::int64_t labels = kFirstLabels;
    std::int64_t improved_for = kInfinite;
    // Bounds forbid little beside a poor choice, and a smaller problem would
    // start without it.
    if (double(primal->value()) - double(result.bound) >
        kPoorGap * std::abs(double(primal->value()) + double(limits.offset))) {
      improve_choice(core, primal);
      improved_for = primal->value();
    }
    for (std::int64_t slice = kFirstSlice;;) {
      if (budget_->options().use_reduced_costs && depth < kMostReductions &&
          primal->value() < reduced_for) {
        reduced_for = primal->value();
        Partial out;
        if (reduce(core, relaxation, primal, allowed, result, limits, depth,
                   &out)) {
          return out;
        }
      }
      if (close_with_labels(relaxation, primal, allowed, limits, labels,
                            &result)) {
        break;
      }
      if (primal->value() < improved_for) {
        improved_for = primal->value();
        improve_choice(core, primal);
        if (is_closed(result.bound, *primal, limits)) break;
        if (primal->value() < improved_for) continue;
      }
      note(techniques_, "branch and bound");
      limits.most_nodes = depth < kMostReductions
                              ? slice
                              : std::numeric_limits<std::int64_t>::max();
      const std::int64_t before = primal->value();
      const SearchResult slice_result = branch_and_bound(
          relaxation, primal, allowed, result, limits, budget_);
      result.bound = std::max(result.bound, slice_result.bound);
      if (slice_result.finished || budget_->spent()) break;
      if (primal->value() >= before) depth = kMostReductions;
      slice *= 2;
      labels *= 4;
    }
    return partial(*relaxation, *primal, result);
  }

  // True when no plan is left that is better than the best by more than the
  // gap; such plans are few enough to be gone through.
  bool close_with_labels(Relaxation* relaxation, Primal* primal,
                         const Allowed& allowed, const SearchLimits& limits,
                         std::int64_t most_labels, SearchResult* result) {
    if (!relaxation->exact() || !budget_->options().use_labels) return false;
    const std::int64_t cutoff = cutoff_of(primal->value(), limits);
    const Relaxation::Cheapest cheapest = relaxation->cheapest_below(
        allowed, result->prices, cutoff, most_labels);
    result->bound = std::max(result->bound, std::min(cutoff, cheapest.bound));
    if (!cheapest.finished) return false;
    note(techniques_, "labels");
    if (cheapest.choice.empty()) {
      result->bound = std::max(result->bound, cutoff);
    } else {
      primal->offer(cheapest.choice);
      SW_CHECK(primal->value() == cheapest.bound,
               "[solver] the labels' plan is not the best");
    }
    return true;
  }

  static Partial partial(const Relaxation& relaxation, const Primal& primal,
                         const SearchResult& result) {
    Partial out;
    out.bound = result.bound;
    out.value = primal.value();
    out.choice = primal.choice();
    std::vector<std::int32_t> same;
    for (std::size_t r = 0; r < relaxation.num_rows(); ++r) {
      same.resize(
          std::max<std::size_t>(same.size(), relaxation.row_position(r) + 1));
    }
    for (std::size_t p = 0; p < same.size(); ++p) {
      same[p] = static_cast<std::int32_t>(p);
    }
    out.prices = priced_rows(relaxation, result.prices, same);
    return out;
  }

  // False: there is no feasible choice, or none was found in time.
  bool find_feasible(const ChoiceProblem& core, Primal* primal) {
    note(techniques_, "smallest peak");
    SearchLimits limits;
    // The smallest limit is an explanation: a percent is close enough, unless
    // exact answers were asked for.
    if (budget_->options().gap > 0) {
      limits.gap = std::max(budget_->options().gap, kGapOfExplanation);
      limits.nodes_after_proof = kNodesOfExplanation;
    }
    limits.enough = core.limit;
    limits.stop_at_enough = true;
    limits.stop_when_proven = !budget_->options().explain_infeasible;
    limits.reports = false;
    infeasibility.looked = true;
    infeasibility.peak = minimise_peak(core, limits, budget_);
    infeasibility.proven = infeasibility.peak.peak.bound > *core.limit;
    if (infeasibility.peak.peak.value > *core.limit) return false;
    primal->offer(infeasibility.peak.peak.choice);
    SW_CHECK(primal->found(), "[solver] a small peak is not feasible");
    return true;
  }

  // Forbids choices whose bound reaches the cutoff and solves what is left.
  bool reduce(const ChoiceProblem& core, Relaxation* relaxation, Primal* primal,
              const Allowed& allowed, const SearchResult& root,
              const SearchLimits& limits, int depth, Partial* out) {
    std::vector<std::int64_t> bounds;
    if (!relaxation->choice_bounds(allowed, root.prices, root.start,
                                   kSweepsOfBounds, &bounds)) {
      return false;
    }
    const std::int64_t cutoff = cutoff_of(primal->value(), limits);
    std::vector<bool> forbidden(bounds.size(), false);
    std::size_t count = 0;
    for (std::size_t flat = 0; flat < bounds.size(); ++flat) {
      forbidden[flat] = bounds[flat] >= cutoff;
      count += forbidden[flat] ? 1 : 0;
    }
    if (double(count) < kWorthReducing * double(bounds.size())) return false;
    note(techniques_, "choices forbidden by their bounds");
    *out = partial(*relaxation, *primal, root);
    const Presolved small = internal::presolve(core, forbidden, budget_);
    if (small.infeasible) {
      out->bound = std::max(out->bound, cutoff);
    } else {
      const Partial inner = solve_core(
          small.problem, primal->value() - small.offset,
          root.bound - small.offset, limits.offset + small.offset, depth + 1);
      const std::int64_t inner_bound =
          inner.bound >= kInfinite || inner.bound < -kInfinite
              ? inner.bound
              : inner.bound + small.offset;
      out->bound = std::max(out->bound, std::min(cutoff, inner_bound));
      if (!inner.choice.empty() && inner.value + small.offset < out->value) {
        out->value = inner.value + small.offset;
        out->choice = small.undo(inner.choice);
      }
    }
    out->bound = std::min(out->bound, out->value);
    return true;
  }

  Budget* budget_;
  std::vector<std::string>* techniques_;
};

void finish(const ChoiceProblem& problem, const SolveOptions& options,
            Answer* answer) {
  const Evaluation value = evaluate(problem, answer->choice);
  SW_CHECK(value.cost == answer->cost,
           fmt::format("[solver] the answer costs {}, the search said {}",
                       value.cost, answer->cost));
  SW_CHECK(value.feasible(problem.limit), "[solver] infeasible answer");
  SW_CHECK(answer->bound <= answer->cost, "[solver] bound above the cost");
  answer->peak = value.peak;
  SearchLimits limits;
  limits.gap = options.gap;
  answer->status = answer->bound >= cutoff_of(answer->cost, limits)
                       ? Status::kOptimal
                       : Status::kFeasible;
}

// What SolveOptions::start costs; kInfinite when there is none of use.
std::int64_t cost_of_start(const ChoiceProblem& problem,
                           const SolveOptions& options) {
  if (options.start.empty()) return kInfinite;
  const Evaluation value = evaluate(problem, options.start);
  return value.feasible(problem.limit) ? value.cost : kInfinite;
}

void note_stop(const Budget& budget, Answer* answer) {
  answer->ticks = budget.ticks();
  if (!budget.spent()) return;
  answer->techniques.push_back(budget.stopped_by_time() ? "stopped by time"
                                                        : "stopped by ticks");
}

}  // namespace

std::string_view to_string(Status status) {
  switch (status) {
    case Status::kOptimal:
      return "optimal";
    case Status::kFeasible:
      return "feasible";
    case Status::kInfeasible:
      return "infeasible";
    case Status::kUnknown:
      return "unknown";
  }
  return "unknown";
}

double Answer::gap() const {
  if (cost == bound) return 0;
  if (cost >= kInfinite || bound <= -kInfinite || cost == 0) {
    return std::numeric_limits<double>::infinity();
  }
  return (double(cost) - double(bound)) / std::abs(double(cost));
}

Answer solve(const ChoiceProblem& problem, const SolveOptions& options) {
  const Result<bool> valid = validate(problem);
  SW_CHECK(valid.has_value(), valid ? "" : valid.error().message);
  Budget budget(options);
  Answer answer;
  // Free memory is a limit nothing reaches: presolve then forgets the axis.
  ChoiceProblem limited;
  if (!problem.limit) {
    limited = problem;
    limited.limit = kLargestTotal;
  }
  const Presolved small =
      internal::presolve(problem.limit ? problem : limited, {}, &budget);
  answer.techniques = small.summary;
  const std::int64_t start = cost_of_start(problem, options);
  if (small.infeasible) {
    SW_CHECK(start >= kInfinite, "[solver] presolve lost a feasible choice");
    answer.status = Status::kInfeasible;
    answer.bound = kInfinite;
    answer.smallest_limit_bound = kInfinite;
    note_stop(budget, &answer);
    return answer;
  }
  CoreSolver solver(&budget, &answer.techniques);
  const Partial result = solver.solve_core(
      small.problem, start < kInfinite ? start - small.offset : kInfinite,
      -kInfinite, small.offset, /*depth=*/0);
  if (result.bound < kInfinite && result.bound > -kInfinite) {
    answer.bound = result.bound + small.offset;
  } else {
    answer.bound = result.bound;
  }
  for (const PricedRow& row : result.prices) {
    answer.prices.push_back({small.positions[row.position], row.price});
  }
  const Infeasibility& none = solver.infeasibility;
  if (result.value < kInfinite) {
    answer.cost = result.value + small.offset;
    if (start <= answer.cost) {
      note(&answer.techniques, "the start is kept");
      answer.choice = options.start;
      // "Nothing better" may be the proof that nothing else is left.
      answer.bound = std::min(answer.bound, answer.cost);
    } else {
      answer.choice = small.undo(result.choice);
    }
    finish(problem, options, &answer);
  } else if (none.proven || result.bound >= kInfinite) {
    answer.status = Status::kInfeasible;
    answer.bound = kInfinite;
    // Without a look at peaks it was the edges: no limit helps.
    if (!none.looked) answer.smallest_limit_bound = kInfinite;
  }
  if (answer.choice.empty() && none.looked) {
    answer.smallest_limit_bound =
        std::max<std::int64_t>(0, none.peak.peak.bound);
    if (none.peak.peak.value < kInfinite) {
      answer.smallest_choice = small.undo(none.peak.peak.choice);
      answer.smallest_limit = evaluate(problem, answer.smallest_choice).peak;
    }
    if (!small.positions.empty()) {
      answer.binding_position = small.positions[none.peak.binding_position];
    }
  }
  note_stop(budget, &answer);
  return answer;
}

Answer smallest_limit(const ChoiceProblem& problem,
                      const SolveOptions& options) {
  const Result<bool> valid = validate(problem);
  SW_CHECK(valid.has_value(), valid ? "" : valid.error().message);
  Budget budget(options);
  Answer answer;
  SearchLimits limits;
  limits.gap = options.gap;
  const PeakPartial result = minimise_peak(problem, limits, &budget);
  answer.techniques.push_back("smallest peak");
  answer.bound = result.peak.bound;
  answer.prices = result.peak.prices;
  answer.binding_position = result.binding_position;
  answer.smallest_limit_bound = std::max<std::int64_t>(0, answer.bound);
  if (result.peak.value < kInfinite) {
    answer.choice = result.peak.choice;
    answer.peak = evaluate(problem, answer.choice).peak;
    SW_CHECK(answer.peak == result.peak.value, "[solver] wrong peak");
    SW_CHECK(answer.bound <= answer.peak, "[solver] bound above the peak");
    answer.cost = answer.peak;
    answer.smallest_limit = answer.peak;
    answer.status = answer.bound >= cutoff_of(answer.cost, limits)
                        ? Status::kOptimal
                        : Status::kFeasible;
  } else if (answer.bound >= kInfinite) {
    answer.status = Status::kInfeasible;
  }
  note_stop(budget, &answer);
  return answer;
}

}  // namespace shardwright::solver
