// Good choices out of several plans: the pool of plans that the prices
// produced, the best choice so far, and the ways to combine them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "shardwright/solver/budget.h"
#include "shardwright/solver/choice_problem.h"
#include "shardwright/solver/relaxation.h"

namespace shardwright::solver::internal {

// Maximum over an axis under "add to a range"; O(log length) per change.
class PeakTree {
 public:
  explicit PeakTree(std::int32_t num_positions);
  void add(std::int32_t lo, std::int32_t hi, std::int64_t bytes);
  std::int64_t peak() const { return length_ == 0 ? 0 : most_[1]; }
  std::int32_t peak_position() const;

 private:
  std::int32_t length_;
  std::int32_t size_ = 1;
  std::vector<std::int64_t> most_;     // of the subtree, own addition included
  std::vector<std::int64_t> pending_;  // added to the whole subtree
};

class Primal {
 public:
  Primal(const ChoiceProblem& problem, Goal goal, Budget* budget);

  // Remembers the plan (if it has no infinite edge) and, when it is feasible
  // and better, takes it as the best choice.
  void offer(const std::vector<std::int32_t>& choice);

  // Combines the plans of the pool with the best choice until nothing gets
  // better. True when the best choice improved.
  bool recombine();

  // A choice of this value is known elsewhere: only better ones are wanted.
  void know_value(std::int64_t value) { value_ = std::min(value_, value); }

  bool found() const { return value_ < kInfinite; }
  std::int64_t value() const { return value_; }  // cost or peak; kInfinite
  // Empty when nothing better than a known value was met.
  const std::vector<std::int32_t>& choice() const { return choice_; }

 private:
  struct Plan {
    std::vector<std::int32_t> choice;
    std::int64_t cost = 0;
    std::int64_t peak = 0;
  };
  struct Swap;   // a component on which two plans differ
  struct State;  // a plan under change

  std::vector<Swap> swaps_between(const std::vector<std::int32_t>& from,
                                  const std::vector<std::int32_t>& to) const;
  bool combine(const Plan& base, const Plan& other);
  void take_gains(State* state, std::vector<Swap>* swaps);
  void exchange(State* state, std::vector<Swap>* swaps);
  bool repair(State* state, std::vector<Swap>* swaps);
  void lower_peak(State* state, std::vector<Swap>* swaps);
  bool polish();
  bool keep(const std::vector<std::int32_t>& choice);
  std::int64_t price_of(const Plan& plan) const;

  const ChoiceProblem& problem_;
  Goal goal_;
  Budget* budget_;
  std::int64_t limit_;
  std::vector<std::vector<std::int32_t>> edges_of_;
  std::vector<Plan> pool_;
  std::size_t next_slot_ = 0;
  std::vector<std::int32_t> choice_;
  std::int64_t value_ = kInfinite;
};

}  // namespace shardwright::solver::internal
