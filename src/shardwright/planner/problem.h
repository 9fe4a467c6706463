// The joint choice problem of a model (DESIGN §8-§10): sharding, storage and
// recompute as one pairwise problem with interval memory.
//
// Nodes:
//  - op: strategy x (run once | run again); owns its internals and the core of
//    its results (passes/value_life.h);
//  - copy of a value: the layout its readers take and how long it is needed,
//  or, where
//    readers differ, the layout as produced and one copy beside it; owns the
//    rest of the bytes of both and of their gradients;
//  - parameter: storage spec; owns parameter, gradient and optimizer state;
//  - use: one reader of a parameter: compute layout and fate of the gather.
// Edges carry the time of conversions, and exclude what does not fit: ports
// match, needs are met, regions agree.
#pragma once

#include <cstdint>
#include <vector>

#include "shardwright/planner/lives.h"
#include "shardwright/planner/model.h"
#include "shardwright/solver/choice_problem.h"

namespace shardwright::planner {

struct OpChoice {
  std::int32_t priced = 0;  // into OpClass::priced
  bool recompute = false;
};

// What a value node knows of the way from the producer's layout to the one its
// readers take. Without a copy the readers share the value's storage.
struct Passage {
  bool copies = false;             // the forward conversion makes a copy
  bool converts_gradient = false;  // the backward conversion does something
  // Of the storage the readers take: run again with its region.
  bool recompute = false;
  bool saves = false;  // no copy: the producer keeps its result anyway
  std::int64_t forward_temporary = 0, backward_temporary = 0;
  // Bytes as produced that are held by the copy's recompute; of a loss that is
  // not copied, to the end of the step.
  std::int64_t held = 0;
  std::int64_t contribution = 0;  // a gradient until other copies' are added
  auto operator<=>(const Passage&) const = default;
};

struct ValueChoice {
  sharding::Port layout;  // taken by all readers, or by those not on `produced`
  Passage passage;
  Need need;  // what the life of that storage allows for

  // Some readers take the value as produced, the others `layout`.
  bool mixed = false;
  sharding::Port produced;
  bool produced_recompute = false;
  bool produced_saves = false;
  Need produced_need;
};

struct ParameterChoice {
  sharding::Port storage;
};

// What a use node knows of the way from the storage layout.
struct UsePassage {
  bool gathers = false;            // the forward conversion makes a copy
  bool converts_gradient = false;  // the backward conversion does something
  std::int64_t forward_temporary = 0, backward_temporary = 0;
  std::int64_t contribution = 0;  // a further gradient until it is added
  auto operator<=>(const UsePassage&) const = default;
};

struct UseChoice {
  sharding::Port compute;
  UsePassage passage;
  bool recompute = false;
  bool regather = false;
  bool saved = false;  // the gathered copy may be kept for the backward
};

// Where each graph entity's node is, -1: it has none.
struct PlanningProblem {
  solver::ChoiceProblem choice;
  std::vector<std::int32_t> node_of_op;
  std::vector<std::int32_t> node_of_copy;       // by Timeline::copies
  std::vector<std::int32_t> node_of_parameter;  // by value id
  std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> node_of_use;

  std::vector<std::vector<OpChoice>> op_choices;                // by op
  std::vector<std::vector<ValueChoice>> copy_choices;           // by copy
  std::vector<std::vector<ParameterChoice>> parameter_choices;  // by value
  std::map<std::pair<std::int32_t, std::int32_t>, std::vector<UseChoice>>
      use_choices;
};

// Errors: kInvalidArgument (a pin that nothing can satisfy).
Result<PlanningProblem> make_problem(const Model& model);

}  // namespace shardwright::planner
