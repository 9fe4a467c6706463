// The joint choice problem of a model (DESIGN §8-§10): sharding, storage and
// recompute as one pairwise problem with interval memory.
//
// Nodes:
//  - op: strategy x (run once | run again);
//  - value: layout A as produced and at most one converted copy B, with how
//    long each is needed; owns the bytes of both and of their gradients;
//  - parameter: storage spec; owns parameter, gradient and optimizer state;
//  - use: one reader of a parameter: compute layout and fate of the gather.
// Edges are 0 or infinite: ports match, needs are met, regions agree.
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

struct ValueChoice {
  sharding::Port produced;             // A
  sharding::Port converted;            // B; empty: no copy
  bool reads_produced = true;          // some reader may take A
  bool shares_storage = false;         // B is A under another gradient layout
  Need produced_need, converted_need;  // what the lives allow for
  bool recompute_produced = false;
  bool recompute_converted = false;
};

struct ParameterChoice {
  sharding::Port storage;
};

struct UseChoice {
  sharding::Port storage;
  sharding::Port compute;
  bool recompute = false;
  bool regather = false;
  bool saved = false;  // the gathered copy may be kept for the backward
};

// Where each graph entity's node is, -1: it has none.
struct PlanningProblem {
  solver::ChoiceProblem choice;
  std::vector<std::int32_t> node_of_op;
  std::vector<std::int32_t> node_of_value;      // activations, inputs, ...
  std::vector<std::int32_t> node_of_parameter;  // by value id
  std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> node_of_use;

  std::vector<std::vector<OpChoice>> op_choices;                // by op
  std::vector<std::vector<ValueChoice>> value_choices;          // by value
  std::vector<std::vector<ParameterChoice>> parameter_choices;  // by value
  std::map<std::pair<std::int32_t, std::int32_t>, std::vector<UseChoice>>
      use_choices;
};

// Errors: kInvalidArgument (a pin that nothing can satisfy).
Result<PlanningProblem> make_problem(const Model& model);

}  // namespace shardwright::planner
