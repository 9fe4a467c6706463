// Plan: the whole, serialisable answer, as a program of steps.
//
// A plan says everything that is executed: which local ops run with which
// specs, every collective of every conversion forward and backward, which
// regions are recomputed, where parameters are stored. The generator that
// turns it into a module needs no knowledge of sharding; the verifier needs
// none of the solver.
//
// Buffers are local tensors, named by text: a value as produced (or a
// parameter in storage, or an input as given) by the value's name, a converted
// copy by "<value>@<port>".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shardwright/base/json.h"
#include "shardwright/base/result.h"
#include "shardwright/base/time_unit.h"
#include "shardwright/mesh/device.h"
#include "shardwright/mesh/device_mesh.h"

namespace shardwright::plan {

// One collective (or local layout change) of a conversion on one mesh axis.
struct CollectiveStep {
  std::string kind;  // mesh::to_string(CollectiveKind)
  std::string axis;
  std::int32_t dim = -1;
  std::int32_t to_dim = -1;
  std::string after;  // spec after it
  std::int64_t bytes = 0;
};

struct InternalCollective {
  std::string kind;
  std::string axis;
  std::int64_t bytes = 0;
};

enum class StepKind { kConvert, kOp };

struct Step {
  StepKind kind = StepKind::kOp;
  std::int32_t region = -1;
  std::vector<std::string> in;
  std::vector<std::string> out;
  std::vector<std::string> in_specs;
  std::vector<std::string> out_specs;

  // kConvert: `value` from spec to spec; gradient specs the other way round.
  std::string value;
  std::vector<std::int64_t> shape;
  std::string dtype;
  std::string from, to, from_grad, to_grad;
  std::vector<CollectiveStep> forward, backward;
  // Dims from the slowest in memory to the fastest, in which the collectives of
  // each way are done; empty: as named. Equal on all ranks, so that they agree
  // on the bytes they send.
  std::vector<std::int32_t> order, grad_order;
  bool regather = false;  // dropped after its reader, made again in backward

  // kOp
  std::string op;        // op key
  std::string strategy;  // "a -> batch, b -> out"
  std::string variant;
  Json variant_args = Json::object();
  Json local_attrs = Json::object();
  std::vector<std::int64_t> local_factors;
  std::vector<InternalCollective> collectives_forward, collectives_backward;
};

struct Region {
  std::int32_t id = 0;
  std::string name;
  bool recompute = false;
};

struct StoredParameter {
  std::string name;
  std::string storage;  // spec text
};

struct Output {
  std::string value;
  std::string buffer;
  std::string spec;
};

// Collectives one training step issues on the rank at coordinate 0.
struct CollectiveCount {
  std::string kind;
  std::string axis;
  std::int64_t bytes = 0;
  std::int64_t count = 0;
};

struct Prediction {
  double time_s = 0;
  double compute_s = 0;
  double communication_s = 0;
  std::int64_t peak_bytes = 0;
  std::string peak_at;  // "backward of <op key>", "optimizer step", ...
  std::int64_t parameters_bytes = 0;
  std::int64_t gradients_bytes = 0;
  std::int64_t optimizer_bytes = 0;
  std::int64_t inputs_bytes = 0;
  std::int64_t activations_bytes = 0;  // at the peak, everything else
};

struct Objective {
  std::int64_t cost_ps = 0;  // both in units of `unit`, picoseconds as a rule
  std::int64_t bound_ps = 0;
  TimeUnit unit;
  std::string status;  // optimal, feasible
  std::string covers;  // what the bound is a bound of
  [[nodiscard]] double gap() const;
  [[nodiscard]] Seconds time() const { return unit.time(cost_ps); }
};

struct Plan {
  std::string program_version;  // shardwright's
  std::string graph_hash;
  std::string graph_name;
  Json batch = Json::object();
  mesh::DeviceMesh mesh;
  std::string cluster;
  std::string optimizer;
  std::optional<std::int64_t> memory_limit_bytes;
  std::vector<StoredParameter> parameters;
  std::vector<Step> steps;
  std::vector<Region> regions;
  std::vector<Output> outputs;
  std::string loss;  // buffer
  std::vector<CollectiveCount> collectives;
  Prediction predicted;
  Objective objective;
  Json solver = Json::object();  // techniques, sizes, times: for people
  std::vector<std::string> warnings;
};

Json plan_to_json(const Plan& plan);
// Errors: kParseError (damaged, naming where), kVersionMismatch (newer).
Result<Plan> plan_from_json(const Json& json);
// SHA-256 of everything that is executed (not of predictions or the solver's
// log): ranks with different hashes refuse to start.
std::string plan_hash(const Plan& plan);

}  // namespace shardwright::plan
