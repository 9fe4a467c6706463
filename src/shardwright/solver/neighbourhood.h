// Large-neighbourhood search (Shaw 1998): the nodes of a window are chosen
// anew, by presolve and elimination, while all others stay as they are. Windows
// are small enough for exact tables where the whole problem is not, and see the
// memory that the rest leaves. Gives choices, never bounds.
#pragma once

#include <cstdint>
#include <vector>

#include "shardwright/solver/budget.h"
#include "shardwright/solver/choice_problem.h"
#include "shardwright/solver/recombine.h"
#include "shardwright/solver/relaxation.h"

namespace shardwright::solver::internal {

class Neighbourhood {
 public:
  // The problem must outlive this. Goal::kCost needs a limit, Goal::kPeak costs
  // of zero.
  Neighbourhood(const ChoiceProblem& problem, Goal goal, Budget* budget);

  // Improves a choice that avoids all infinite edges and, for Goal::kCost,
  // keeps the limit. Windows grow whenever a round of them finds nothing; ends
  // with the largest ones, after about `ticks`, or when the budget is spent.
  // True when the choice became better.
  bool improve(std::vector<std::int32_t>* choice, std::int64_t ticks);

 private:
  struct Window {
    ChoiceProblem problem;        // its free nodes, and one for all others
    std::vector<bool> forbidden;  // flat choices that an edge to a fixed node
                                  // makes infinite
    std::vector<std::int32_t> nodes;
  };

  // Up to `size` nodes around `seed`, nearest first.
  std::vector<std::int32_t> around(std::int32_t seed, std::size_t size) const;
  Window window_of(std::vector<std::int32_t> nodes,
                   const std::vector<std::int32_t>& choice) const;
  bool solve(const Window& window, std::vector<std::int32_t>* choice);
  bool round(std::size_t size, std::int64_t end,
             std::vector<std::int32_t>* choice);

  const ChoiceProblem& problem_;
  Goal goal_;
  Budget* budget_;
  std::vector<std::vector<std::int32_t>> edges_of_;
};

}  // namespace shardwright::solver::internal
