// JSON form of a Plan ("shardwright.plan", version 1).
#include <fmt/format.h>

#include "shardwright/base/permutation.h"
#include "shardwright/plan/plan.h"

namespace shardwright::plan {
namespace {

constexpr std::int64_t kVersion = 1;

Json collective_to_json(const CollectiveStep& step) {
  Json json = {{"kind", step.kind}, {"axis", step.axis}};
  if (step.dim >= 0) json["dim"] = step.dim;
  if (step.to_dim >= 0) json["to_dim"] = step.to_dim;
  json["after"] = step.after;
  json["bytes"] = step.bytes;
  return json;
}

template <typename T, typename F>
Json list_of(const std::vector<T>& items, F to_json) {
  Json list = Json::array();
  for (const T& item : items) list.push_back(to_json(item));
  return list;
}

Json internal_to_json(const InternalCollective& item) {
  return {{"kind", item.kind}, {"axis", item.axis}, {"bytes", item.bytes}};
}

Json step_to_json(const Step& step) {
  if (step.kind == StepKind::kConvert) {
    Json out = {{"kind", "convert"},
                {"value", step.value},
                {"in", step.in.at(0)},
                {"out", step.out.at(0)},
                {"shape", step.shape},
                {"dtype", step.dtype},
                {"from", step.from},
                {"to", step.to},
                {"from_grad", step.from_grad},
                {"to_grad", step.to_grad},
                {"forward", list_of(step.forward, collective_to_json)},
                {"backward", list_of(step.backward, collective_to_json)},
                {"regather", step.regather},
                {"region", step.region}};
    if (!step.order.empty()) out["order"] = step.order;
    if (!step.grad_order.empty()) out["grad_order"] = step.grad_order;
    return out;
  }
  return {{"kind", "op"},
          {"op", step.op},
          {"in", step.in},
          {"out", step.out},
          {"in_specs", step.in_specs},
          {"out_specs", step.out_specs},
          {"variant", step.variant.empty() ? Json() : Json(step.variant)},
          {"variant_args", step.variant_args},
          {"local_attrs", step.local_attrs},
          {"local_factors", step.local_factors},
          {"strategy", step.strategy},
          {"collectives_forward",
           list_of(step.collectives_forward, internal_to_json)},
          {"collectives_backward",
           list_of(step.collectives_backward, internal_to_json)},
          {"region", step.region}};
}

Json mesh_to_json(const mesh::DeviceMesh& mesh) {
  Json axes = Json::array();
  for (const mesh::MeshAxis& axis : mesh.axes) {
    axes.push_back({{"name", axis.name},
                    {"size", axis.size},
                    {"alpha_s", axis.alpha.value},
                    {"beta_s_per_byte", axis.beta}});
  }
  return {{"axes", axes}, {"device", mesh::to_json(mesh.device)}};
}

// What is executed; the rest of the file is prediction and record.
Json program_to_json(const Plan& plan) {
  Json axes = Json::array();
  for (const mesh::MeshAxis& axis : plan.mesh.axes) {
    axes.push_back({{"name", axis.name}, {"size", axis.size}});
  }
  return {{"graph_hash", plan.graph_hash},
          {"axes", axes},
          {"parameters",
           list_of(plan.parameters,
                   [](const StoredParameter& p) -> Json {
                     return {{"name", p.name}, {"storage", p.storage}};
                   })},
          {"steps", list_of(plan.steps, step_to_json)},
          {"regions", list_of(plan.regions,
                              [](const Region& r) -> Json {
                                return {{"id", r.id},
                                        {"name", r.name},
                                        {"recompute", r.recompute}};
                              })},
          {"outputs", list_of(plan.outputs,
                              [](const Output& o) -> Json {
                                return {{"value", o.value},
                                        {"buffer", o.buffer},
                                        {"spec", o.spec}};
                              })},
          {"loss", plan.loss}};
}

Json prediction_to_json(const Prediction& p) {
  return {{"time_s", p.time_s},
          {"compute_s", p.compute_s},
          {"communication_s", p.communication_s},
          {"peak_bytes", p.peak_bytes},
          {"peak_at", p.peak_at},
          {"parameters_bytes", p.parameters_bytes},
          {"gradients_bytes", p.gradients_bytes},
          {"optimizer_bytes", p.optimizer_bytes},
          {"inputs_bytes", p.inputs_bytes},
          {"activations_bytes", p.activations_bytes}};
}

// ---- reading ---------------------------------------------------------------

Result<std::vector<std::string>> get_strings(const Json& object,
                                             const char* key,
                                             const std::string& where) {
  SW_ASSIGN_OR_RETURN(const Json* list, get_array(object, key, where));
  std::vector<std::string> out;
  for (const Json& item : *list) {
    if (!item.is_string()) {
      return make_error(
          ErrorCode::kParseError,
          fmt::format("[plan] {}: '{}' must hold texts", where, key));
    }
    out.push_back(item.get<std::string>());
  }
  return out;
}

Result<std::vector<CollectiveStep>> get_collectives(const Json& object,
                                                    const char* key,
                                                    const std::string& where) {
  SW_ASSIGN_OR_RETURN(const Json* list, get_array(object, key, where));
  std::vector<CollectiveStep> out;
  for (const Json& item : *list) {
    CollectiveStep step;
    SW_ASSIGN_OR_RETURN(step.kind, get_string(item, "kind", where));
    SW_ASSIGN_OR_RETURN(step.axis, get_string(item, "axis", where));
    SW_ASSIGN_OR_RETURN(step.after, get_string(item, "after", where));
    SW_ASSIGN_OR_RETURN(step.bytes, get_int(item, "bytes", where));
    for (const auto& [name, field] :
         {std::pair{"dim", &step.dim}, {"to_dim", &step.to_dim}}) {
      if (!item.contains(name)) continue;
      SW_ASSIGN_OR_RETURN(*field, get_index(item, name, where));
    }
    out.push_back(std::move(step));
  }
  return out;
}

Result<std::vector<InternalCollective>> get_internal(const Json& object,
                                                     const char* key,
                                                     const std::string& where) {
  SW_ASSIGN_OR_RETURN(const Json* list, get_array(object, key, where));
  std::vector<InternalCollective> out;
  for (const Json& item : *list) {
    InternalCollective entry;
    SW_ASSIGN_OR_RETURN(entry.kind, get_string(item, "kind", where));
    SW_ASSIGN_OR_RETURN(entry.axis, get_string(item, "axis", where));
    SW_ASSIGN_OR_RETURN(entry.bytes, get_int(item, "bytes", where));
    out.push_back(std::move(entry));
  }
  return out;
}

// All dims of a tensor once each; empty when absent.
Result<std::vector<std::int32_t>> get_order(const Json& json, const char* key,
                                            std::size_t rank,
                                            const std::string& where) {
  if (!json.contains(key)) return std::vector<std::int32_t>();
  SW_ASSIGN_OR_RETURN(const std::vector<std::int64_t> dims,
                      get_ints(json, key, where));
  // An empty list says what an absent one does: as named.
  if (dims.empty()) return std::vector<std::int32_t>();
  const auto order = as_permutation(dims, rank);
  if (order) return *order;
  return make_error(
      ErrorCode::kInvalidPlan,
      fmt::format("[plan] '{}' is no order of dims: expected each of {} "
                  "once, got [{}] ({}). Try: plan again.",
                  key, rank, fmt::join(dims, ", "), where));
}

Result<Step> convert_from_json(const Json& json, const std::string& where) {
  Step step;
  step.kind = StepKind::kConvert;
  SW_ASSIGN_OR_RETURN(step.value, get_string(json, "value", where));
  SW_ASSIGN_OR_RETURN(const std::string in, get_string(json, "in", where));
  SW_ASSIGN_OR_RETURN(const std::string out, get_string(json, "out", where));
  step.in = {in};
  step.out = {out};
  SW_ASSIGN_OR_RETURN(step.shape, get_ints(json, "shape", where));
  SW_ASSIGN_OR_RETURN(step.dtype, get_string(json, "dtype", where));
  SW_ASSIGN_OR_RETURN(step.from, get_string(json, "from", where));
  SW_ASSIGN_OR_RETURN(step.to, get_string(json, "to", where));
  SW_ASSIGN_OR_RETURN(step.from_grad, get_string(json, "from_grad", where));
  SW_ASSIGN_OR_RETURN(step.to_grad, get_string(json, "to_grad", where));
  SW_ASSIGN_OR_RETURN(step.forward, get_collectives(json, "forward", where));
  SW_ASSIGN_OR_RETURN(step.backward, get_collectives(json, "backward", where));
  SW_ASSIGN_OR_RETURN(step.regather, get_bool(json, "regather", where));
  const std::size_t rank = step.shape.size();
  SW_ASSIGN_OR_RETURN(step.order, get_order(json, "order", rank, where));
  SW_ASSIGN_OR_RETURN(step.grad_order,
                      get_order(json, "grad_order", rank, where));
  step.in_specs = {step.from};
  step.out_specs = {step.to};
  return step;
}

Result<Step> op_from_json(const Json& json, const std::string& where) {
  Step step;
  SW_ASSIGN_OR_RETURN(step.op, get_string(json, "op", where));
  SW_ASSIGN_OR_RETURN(step.in, get_strings(json, "in", where));
  SW_ASSIGN_OR_RETURN(step.out, get_strings(json, "out", where));
  SW_ASSIGN_OR_RETURN(step.in_specs, get_strings(json, "in_specs", where));
  SW_ASSIGN_OR_RETURN(step.out_specs, get_strings(json, "out_specs", where));
  if (json.contains("variant") && !json["variant"].is_null()) {
    SW_ASSIGN_OR_RETURN(step.variant, get_string(json, "variant", where));
  }
  SW_ASSIGN_OR_RETURN(const Json* args,
                      get_object(json, "variant_args", where));
  step.variant_args = *args;
  SW_ASSIGN_OR_RETURN(const Json* attrs,
                      get_object(json, "local_attrs", where));
  step.local_attrs = *attrs;
  SW_ASSIGN_OR_RETURN(step.local_factors,
                      get_ints(json, "local_factors", where));
  SW_ASSIGN_OR_RETURN(step.strategy, get_string(json, "strategy", where));
  SW_ASSIGN_OR_RETURN(step.collectives_forward,
                      get_internal(json, "collectives_forward", where));
  SW_ASSIGN_OR_RETURN(step.collectives_backward,
                      get_internal(json, "collectives_backward", where));
  return step;
}

Result<Step> step_from_json(const Json& json, const std::string& where) {
  SW_ASSIGN_OR_RETURN(const std::string kind, get_string(json, "kind", where));
  Step step;
  if (kind == "convert") {
    SW_ASSIGN_OR_RETURN(step, convert_from_json(json, where));
  } else if (kind == "op") {
    SW_ASSIGN_OR_RETURN(step, op_from_json(json, where));
  } else {
    return make_error(
        ErrorCode::kParseError,
        fmt::format("[plan] {}: unknown step kind '{}'", where, kind));
  }
  SW_ASSIGN_OR_RETURN(step.region, get_index(json, "region", where));
  return step;
}

Result<mesh::DeviceMesh> mesh_from_json(const Json& json) {
  mesh::DeviceMesh mesh;
  SW_ASSIGN_OR_RETURN(const Json* axes, get_array(json, "axes", "plan.mesh"));
  for (const Json& item : *axes) {
    mesh::MeshAxis axis;
    SW_ASSIGN_OR_RETURN(axis.name, get_string(item, "name", "plan.mesh"));
    SW_ASSIGN_OR_RETURN(axis.size, get_int(item, "size", "plan.mesh"));
    SW_ASSIGN_OR_RETURN(const double alpha,
                        get_double(item, "alpha_s", "plan.mesh"));
    axis.alpha = Seconds(alpha);
    SW_ASSIGN_OR_RETURN(axis.beta,
                        get_double(item, "beta_s_per_byte", "plan.mesh"));
    mesh.axes.push_back(std::move(axis));
  }
  SW_ASSIGN_OR_RETURN(const Json* device,
                      get_object(json, "device", "plan.mesh"));
  SW_ASSIGN_OR_RETURN(mesh.device,
                      mesh::device_from_json(*device, "plan.mesh.device"));
  SW_RETURN_IF_ERROR(mesh::validate(mesh));
  return mesh;
}

Result<Prediction> prediction_from_json(const Json& json) {
  Prediction p;
  const std::string where = "plan.predicted";
  for (const auto& [name, field] : {std::pair{"time_s", &p.time_s},
                                    {"compute_s", &p.compute_s},
                                    {"communication_s", &p.communication_s}}) {
    SW_ASSIGN_OR_RETURN(*field, get_double(json, name, where));
  }
  for (const auto& [name, field] :
       {std::pair{"peak_bytes", &p.peak_bytes},
        {"parameters_bytes", &p.parameters_bytes},
        {"gradients_bytes", &p.gradients_bytes},
        {"optimizer_bytes", &p.optimizer_bytes},
        {"inputs_bytes", &p.inputs_bytes},
        {"activations_bytes", &p.activations_bytes}}) {
    SW_ASSIGN_OR_RETURN(*field, get_int(json, name, where));
  }
  SW_ASSIGN_OR_RETURN(p.peak_at, get_string(json, "peak_at", where));
  return p;
}

Result<bool> check_header(const Json& json) {
  SW_ASSIGN_OR_RETURN(const std::string schema,
                      get_string(json, "schema", "plan"));
  if (schema != "shardwright.plan") {
    return make_error(ErrorCode::kParseError,
                      fmt::format("[plan] expected a shardwright.plan file, "
                                  "got '{}'",
                                  schema));
  }
  SW_ASSIGN_OR_RETURN(const std::int64_t version,
                      get_int(json, "version", "plan"));
  if (version != kVersion) {
    return make_error(
        ErrorCode::kVersionMismatch,
        fmt::format("[plan] plan file has version {}, this build reads {}. "
                    "Try: a newer shardwright, or plan again.",
                    version, kVersion));
  }
  return true;
}

Result<bool> read_program(const Json& json, Plan& plan) {
  SW_ASSIGN_OR_RETURN(const Json* parameters,
                      get_array(json, "parameters", "plan"));
  for (const Json& item : *parameters) {
    StoredParameter p;
    SW_ASSIGN_OR_RETURN(p.name, get_string(item, "name", "plan.parameters"));
    SW_ASSIGN_OR_RETURN(p.storage,
                        get_string(item, "storage", "plan.parameters"));
    plan.parameters.push_back(std::move(p));
  }
  SW_ASSIGN_OR_RETURN(const Json* steps, get_array(json, "steps", "plan"));
  for (std::size_t i = 0; i < steps->size(); ++i) {
    SW_ASSIGN_OR_RETURN(
        Step step,
        step_from_json((*steps)[i], fmt::format("plan.steps[{}]", i)));
    plan.steps.push_back(std::move(step));
  }
  SW_ASSIGN_OR_RETURN(const Json* regions, get_array(json, "regions", "plan"));
  for (const Json& item : *regions) {
    Region region;
    SW_ASSIGN_OR_RETURN(region.id, get_index(item, "id", "plan.regions"));
    SW_ASSIGN_OR_RETURN(region.name, get_string(item, "name", "plan.regions"));
    SW_ASSIGN_OR_RETURN(region.recompute,
                        get_bool(item, "recompute", "plan.regions"));
    plan.regions.push_back(std::move(region));
  }
  SW_ASSIGN_OR_RETURN(const Json* outputs, get_array(json, "outputs", "plan"));
  for (const Json& item : *outputs) {
    Output output;
    SW_ASSIGN_OR_RETURN(output.value,
                        get_string(item, "value", "plan.outputs"));
    SW_ASSIGN_OR_RETURN(output.buffer,
                        get_string(item, "buffer", "plan.outputs"));
    SW_ASSIGN_OR_RETURN(output.spec, get_string(item, "spec", "plan.outputs"));
    plan.outputs.push_back(std::move(output));
  }
  SW_ASSIGN_OR_RETURN(plan.loss, get_string(json, "loss", "plan"));
  return true;
}

Result<bool> read_answer(const Json& json, Plan& plan) {
  SW_ASSIGN_OR_RETURN(const Json* collectives,
                      get_array(json, "collectives", "plan"));
  for (const Json& item : *collectives) {
    CollectiveCount count;
    SW_ASSIGN_OR_RETURN(count.kind,
                        get_string(item, "kind", "plan.collectives"));
    SW_ASSIGN_OR_RETURN(count.axis,
                        get_string(item, "axis", "plan.collectives"));
    SW_ASSIGN_OR_RETURN(count.bytes,
                        get_int(item, "bytes", "plan.collectives"));
    SW_ASSIGN_OR_RETURN(count.count,
                        get_int(item, "count", "plan.collectives"));
    plan.collectives.push_back(std::move(count));
  }
  SW_ASSIGN_OR_RETURN(const Json* predicted,
                      get_object(json, "predicted", "plan"));
  SW_ASSIGN_OR_RETURN(plan.predicted, prediction_from_json(*predicted));
  SW_ASSIGN_OR_RETURN(const Json* objective,
                      get_object(json, "objective", "plan"));
  SW_ASSIGN_OR_RETURN(plan.objective.cost_ps,
                      get_int(*objective, "cost_ps", "plan.objective"));
  SW_ASSIGN_OR_RETURN(plan.objective.bound_ps,
                      get_int(*objective, "bound_ps", "plan.objective"));
  if (objective->contains("unit_ps")) {
    SW_ASSIGN_OR_RETURN(plan.objective.unit.picoseconds,
                        get_int(*objective, "unit_ps", "plan.objective"));
    if (plan.objective.unit.picoseconds < 1) {
      return make_error(
          ErrorCode::kInvalidPlan,
          fmt::format(
              "[plan] plan.objective.unit_ps: expected at least 1, got {}",
              plan.objective.unit.picoseconds));
    }
  }
  SW_ASSIGN_OR_RETURN(plan.objective.status,
                      get_string(*objective, "status", "plan.objective"));
  SW_ASSIGN_OR_RETURN(plan.objective.covers,
                      get_string(*objective, "covers", "plan.objective"));
  return true;
}

}  // namespace

double Objective::gap() const {
  if (cost_ps == bound_ps) return 0;
  if (bound_ps <= 0) return 1e9;
  return static_cast<double>(cost_ps - bound_ps) /
         static_cast<double>(bound_ps);
}

Json plan_to_json(const Plan& plan) {
  Json json = {
      {"schema", "shardwright.plan"},
      {"version", kVersion},
      {"shardwright", plan.program_version},
      {"graph_hash", plan.graph_hash},
      {"graph_name", plan.graph_name},
      {"plan_hash", plan_hash(plan)},
      {"cluster", plan.cluster},
      {"mesh", mesh_to_json(plan.mesh)},
      {"optimizer", plan.optimizer},
      {"memory_limit_bytes",
       plan.memory_limit_bytes ? Json(*plan.memory_limit_bytes) : Json()},
      {"predicted", prediction_to_json(plan.predicted)},
      {"objective",
       {{"cost_ps", plan.objective.cost_ps},
        {"bound_ps", plan.objective.bound_ps},
        {"unit_ps", plan.objective.unit.picoseconds},
        {"gap", plan.objective.gap()},
        {"status", plan.objective.status},
        {"covers", plan.objective.covers}}},
      {"solver", plan.solver},
      {"warnings", plan.warnings},
      {"collectives",
       list_of(plan.collectives, [](const CollectiveCount& c) -> Json {
         return {{"kind", c.kind},
                 {"axis", c.axis},
                 {"bytes", c.bytes},
                 {"count", c.count}};
       })}};
  const Json program = program_to_json(plan);
  for (const char* key :
       {"parameters", "steps", "regions", "outputs", "loss"}) {
    json[key] = program[key];
  }
  json["batch"] = plan.batch;
  return json;
}

Result<Plan> plan_from_json(const Json& json) {
  SW_RETURN_IF_ERROR(check_header(json));
  Plan plan;
  SW_ASSIGN_OR_RETURN(plan.program_version,
                      get_string(json, "shardwright", "plan"));
  SW_ASSIGN_OR_RETURN(plan.graph_hash, get_string(json, "graph_hash", "plan"));
  SW_ASSIGN_OR_RETURN(plan.graph_name, get_string(json, "graph_name", "plan"));
  SW_ASSIGN_OR_RETURN(plan.cluster, get_string(json, "cluster", "plan"));
  SW_ASSIGN_OR_RETURN(plan.optimizer, get_string(json, "optimizer", "plan"));
  if (json.contains("memory_limit_bytes") &&
      !json["memory_limit_bytes"].is_null()) {
    SW_ASSIGN_OR_RETURN(const std::int64_t limit,
                        get_int(json, "memory_limit_bytes", "plan"));
    plan.memory_limit_bytes = limit;
  }
  SW_ASSIGN_OR_RETURN(const Json* mesh, get_object(json, "mesh", "plan"));
  SW_ASSIGN_OR_RETURN(plan.mesh, mesh_from_json(*mesh));
  SW_RETURN_IF_ERROR(read_program(json, plan));
  SW_RETURN_IF_ERROR(read_answer(json, plan));
  if (json.contains("solver")) plan.solver = json["solver"];
  if (json.contains("batch")) plan.batch = json["batch"];
  if (json.contains("warnings")) {
    SW_ASSIGN_OR_RETURN(plan.warnings, get_strings(json, "warnings", "plan"));
  }
  SW_ASSIGN_OR_RETURN(const std::string hash,
                      get_string(json, "plan_hash", "plan"));
  if (hash != plan_hash(plan)) {
    return make_error(
        ErrorCode::kInvalidPlan,
        fmt::format("[plan] the plan does not match its own "
                    "hash: expected {}, got {}. The file was "
                    "changed by hand or damaged. Try: plan "
                    "again.",
                    hash.substr(0, 12), plan_hash(plan).substr(0, 12)));
  }
  return plan;
}

std::string plan_hash(const Plan& plan) {
  return sha256_hex(program_to_json(plan).dump());
}

}  // namespace shardwright::plan
