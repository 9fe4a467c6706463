// Branch and bound over the relaxation: finishes what prices leave open.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shardwright/solver/recombine.h"
#include "shardwright/solver/relaxation.h"

namespace shardwright::solver::internal {

struct SearchLimits {
  double gap = 0;  // relative; a bound within it of the best value suffices
  std::int64_t offset = 0;  // added to values before the gap is taken of them
  bool reports = true;      // tells SolveOptions::progress
  // No value is lower, as is known from elsewhere.
  std::int64_t known_bound = std::numeric_limits<std::int64_t>::lowest();
  // Goal::kPeak: peaks up to it are good enough, bounds above it are a proof.
  std::optional<std::int64_t> enough;
  bool stop_at_enough = false;    // end with the first peak <= enough
  bool stop_when_proven = false;  // end with the first bound > enough
  // Nodes spent on a closer bound after one above `enough` was found.
  std::int64_t nodes_after_proof = std::numeric_limits<std::int64_t>::max();
  std::int64_t most_nodes = std::numeric_limits<std::int64_t>::max();
};

struct SearchResult {
  std::int64_t bound = std::numeric_limits<std::int64_t>::lowest();
  std::int64_t num_nodes = 0;
  Relaxation::Prices prices;  // at the root
  Relaxation::Start start;
  std::vector<std::int32_t> plans;  // of the relaxation, met at the root
  bool finished = false;            // the limits were met, or nothing is left
};

// The value from which on a bound is good enough.
std::int64_t cutoff_of(std::int64_t value, const SearchLimits& limits);

// The best value is good enough: beside the bound, or by itself
// (SearchLimits::enough).
bool is_closed(std::int64_t bound, const Primal& primal,
               const SearchLimits& limits);

// Tightens the root, recombines, samples more plans while the gap is open.
SearchResult search_root(Relaxation* relaxation, Primal* primal,
                         const Allowed& allowed, const SearchLimits& limits,
                         Budget* budget);

// Best-first branch and bound from `root` (its bound and prices are used).
SearchResult branch_and_bound(Relaxation* relaxation, Primal* primal,
                              const Allowed& allowed, const SearchResult& root,
                              const SearchLimits& limits, Budget* budget);

}  // namespace shardwright::solver::internal
