// Solves a ChoiceProblem and says how good the answer provably is.
//
//   SolveOptions options;
//   Answer answer = solve(problem, options);
//   // answer.cost is at most answer.gap() above the least possible cost
//
// Reading order of the techniques behind it, one file each:
//   presolve     shrink the problem, keep an optimal answer
//   elimination  exact minimum without memory, on classes of choices
//   relaxation   memory rows as prices; bounds in exact integers
//   recombine    good feasible choices out of the plans the prices produced
//   branch       branch and bound for what is left
// Every answer is added up again from the problem as given (evaluate.h).
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/solver/choice_problem.h"

namespace shardwright::solver {

// What is known while the solver runs; costs kInfinite / bounds lowest() when
// nothing is.
struct Progress {
  std::string_view technique;
  std::int64_t cost = kInfinite;  // of the best choice found
  std::int64_t bound = std::numeric_limits<std::int64_t>::lowest();
  double seconds = 0;
};

struct SolveOptions {
  // Stop when (cost - bound) <= gap * cost. 0 asks for a proof of optimality.
  double gap = 1e-3;
  double time_limit_s = 60;
  // Deterministic work limit (a tick is about one table cell looked at).
  // Unlike a stop by time, a stop by ticks gives the same answer every time.
  std::int64_t tick_limit = std::numeric_limits<std::int64_t>::max();
  // Varies the small cost noise that breaks ties between equal plans.
  std::uint64_t seed = 0;
  // Polled some hundred times a second; true ends the search with what is
  // known.
  std::function<bool()> interrupted;
  std::function<void(const Progress&)> progress;

  // A choice known before, one index per node in range (SW_CHECK), or empty.
  // When it keeps the limit only better ones are looked for, and it is the
  // answer if there are none; otherwise it has no effect.
  std::vector<std::int32_t> start;

  // Largest elimination table, in cells (8 bytes each). Problems that need
  // larger ones are bounded by dual ascent.
  std::int64_t table_cells = std::int64_t{1} << 24;
  // An infeasible problem: go on until the smallest feasible limit is known
  // within 1 % (exactly when gap is 0), for a short while at most.
  bool explain_infeasible = true;

  // Off switches, for tests and for finding out what a technique is worth.
  bool use_arc_consistency = true;
  bool use_folding = true;
  bool use_contraction = true;
  bool use_separable_edges = true;
  bool use_parallel_edges = true;
  bool use_dominance = true;
  bool use_positions = true;
  bool use_sharing = true;  // equal parts are presolved once
  bool use_recombination = true;
  bool use_neighbourhoods = true;
  bool use_reduced_costs = true;
  bool use_labels = true;
};

enum class Status {
  kOptimal,     // proven within SolveOptions::gap
  kFeasible,    // a choice, not proven within the gap
  kInfeasible,  // proven: no choice keeps the limit (or the edges)
  kUnknown,     // stopped before anything was found or proven
};
std::string_view to_string(Status status);

// The price of memory at a position: a limit higher by one byte there would
// save about that many cost units (picoseconds).
struct PricedRow {
  std::int32_t position = 0;
  double price = 0;
};

struct Answer {
  Status status = Status::kUnknown;
  std::int64_t cost = kInfinite;  // bytes of peak in smallest_limit()
  std::int64_t bound = std::numeric_limits<std::int64_t>::lowest();
  std::vector<std::int32_t> choice;  // empty when none was found
  std::int64_t peak = 0;             // of `choice`
  std::vector<PricedRow> prices;     // rows that bind, by position
  std::vector<std::string> techniques;
  std::int64_t ticks = 0;

  // Filled when the limit cannot be kept: a limit that can (kInfinite when no
  // choice avoids the infinite edges), one that cannot be undercut, and where
  // memory is short. The two limits are equal when the search was finished.
  std::int64_t smallest_limit = kInfinite;
  std::int64_t smallest_limit_bound = 0;
  std::int32_t binding_position = 0;
  std::vector<std::int32_t> smallest_choice;  // reaches smallest_limit

  // (cost - bound) / |cost|; 0 when they are equal, infinity when either is
  // missing.
  double gap() const;
};

// `problem` must be valid (validate()): SW_CHECK.
Answer solve(const ChoiceProblem& problem, const SolveOptions& options = {});

// The least peak that any choice reaches; the problem's limit and its finite
// costs are ignored. cost, bound and smallest_limit are bytes.
Answer smallest_limit(const ChoiceProblem& problem,
                      const SolveOptions& options = {});

}  // namespace shardwright::solver
