// Which choices are still possible while nodes are fixed one after the other:
// after each, choices that lost all partners along an edge go as well (arc
// consistency, Mackworth 1977, AC-3 on classes of choices).
#pragma once

#include <cstdint>
#include <vector>

#include "shardwright/solver/budget.h"
#include "shardwright/solver/choice_problem.h"
#include "shardwright/solver/elimination.h"

namespace shardwright::solver::internal {

class Domains {
 public:
  // The problem must outlive this.
  Domains(const ChoiceProblem& problem, Budget* budget);

  // Leaves the node one choice. False, and nothing has changed, when it is no
  // longer possible or some node would have none left.
  bool fix(std::int32_t node, std::int32_t choice);

 private:
  bool possible(std::int32_t node, std::int32_t choice) const {
    return alive_[index_.first[node] + choice] != 0;
  }
  void remove(std::int32_t node, std::int32_t choice);
  // Takes from the other end of the edge what `node` no longer supports. False:
  // that end is empty.
  bool revise(const Edge& edge, std::int32_t node);
  bool propagate(std::int32_t start);

  const ChoiceProblem& problem_;
  Budget* budget_;
  FlatIndex index_;
  std::vector<std::vector<std::int32_t>> edges_of_;
  std::vector<std::uint8_t> alive_;                           // per flat choice
  std::vector<std::int32_t> remaining_;                       // per node
  std::vector<std::pair<std::int32_t, std::int32_t>> trail_;  // removed ones
};

}  // namespace shardwright::solver::internal
