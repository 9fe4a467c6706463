#include "shardwright/planner/make_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "shardwright/base/version.h"
#include "shardwright/planner/assemble.h"
#include "shardwright/planner/model.h"
#include "shardwright/planner/problem.h"
#include "shardwright/sim/replay.h"
#include "shardwright/solver/evaluate.h"
#include "shardwright/solver/solve.h"

namespace shardwright::planner {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string position_text(const Model& model, std::int32_t position) {
  const Timeline& timeline = model.timeline;
  const auto name = [&](std::size_t slot) {
    const Slot& entry = timeline.slots[slot];
    if (entry.kind == Slot::Kind::kOp) return model.graph->op(entry.op).key;
    return fmt::format("conversion of {}",
                       model.graph->value(entry.value).name);
  };
  if (position >= timeline.optimizer_begin) return "the optimizer step";
  const auto n = static_cast<std::int32_t>(timeline.slots.size());
  if (position < n) {
    return "forward of " + name(static_cast<std::size_t>(position));
  }
  for (std::size_t s = 0; s < timeline.slots.size(); ++s) {
    if (timeline.backward[s] == position) return "backward of " + name(s);
    if (timeline.recompute[s] == position) return "recompute of " + name(s);
  }
  return "the step";
}

tl::unexpected<Error> infeasible(const Model& model,
                                 const solver::Answer& answer,
                                 std::int64_t limit) {
  if (answer.smallest_limit >= solver::kInfinite) {
    return make_error(ErrorCode::kInfeasible,
                      "[planner] no plan satisfies the pins together. Try: "
                      "fewer pins; `shardwright explain` shows each op's "
                      "strategies.");
  }
  if (answer.smallest_limit_bound <= limit) {
    return make_error(
        ErrorCode::kInfeasible,
        fmt::format("[planner] no plan was found in time that keeps the memory "
                    "limit of {} per device on mesh {}: the smallest found "
                    "needs {} (none needs less than {}); {} binds. Try: "
                    "--memory {} (bytes), a longer --time-limit, more devices, "
                    "or a smaller batch.",
                    human(Bytes(limit)), mesh::to_string(model.mesh),
                    human(Bytes(answer.smallest_limit)),
                    human(Bytes(answer.smallest_limit_bound)),
                    position_text(model, answer.binding_position),
                    answer.smallest_limit));
  }
  return make_error(
      ErrorCode::kInfeasible,
      fmt::format("[planner] the memory limit of {} per device is too small "
                  "on mesh {}: the smallest that works is {} (no plan of this "
                  "search space needs less than {}); {} binds. Try: "
                  "--memory {} (bytes), more devices, or a smaller batch.",
                  human(Bytes(limit)), mesh::to_string(model.mesh),
                  human(Bytes(answer.smallest_limit)),
                  human(Bytes(answer.smallest_limit_bound)),
                  position_text(model, answer.binding_position),
                  answer.smallest_limit));
}

std::int64_t num_choices(const solver::ChoiceProblem& problem) {
  std::int64_t count = 0;
  for (const solver::Node& node : problem.nodes) {
    count += static_cast<std::int64_t>(node.choices.size());
  }
  return count;
}

// Fills in what the judge says of the program.
Result<bool> predict(const ir::Graph& graph, plan::Plan& plan) {
  SW_ASSIGN_OR_RETURN(const sim::MemoryTimeline timeline,
                      sim::replay(graph, plan));
  SW_ASSIGN_OR_RETURN(plan.collectives, sim::count_collectives(graph, plan));
  plan::Prediction& p = plan.predicted;
  p.time_s = plan.objective.time().value;
  p.peak_bytes = timeline.peak_bytes;
  p.peak_at = timeline.peak_at;
  p.parameters_bytes = timeline.parameters_bytes;
  p.gradients_bytes = timeline.gradients_bytes;
  p.optimizer_bytes = timeline.optimizer_bytes;
  p.inputs_bytes = timeline.inputs_bytes;
  p.activations_bytes =
      std::max<std::int64_t>(0, timeline.peak_bytes - p.parameters_bytes -
                                    p.optimizer_bytes - p.inputs_bytes);
  for (const plan::CollectiveCount& count : plan.collectives) {
    const std::int32_t axis = plan.mesh.axis_index(count.axis);
    SW_ASSIGN_OR_RETURN(const mesh::CollectiveKind kind,
                        mesh::parse_collective_kind(count.kind));
    p.communication_s +=
        static_cast<double>(count.count) *
        mesh::collective_time(kind,
                              plan.mesh.axes[static_cast<std::size_t>(axis)],
                              Bytes(count.bytes))
            .value;
  }
  p.compute_s = std::max(0.0, p.time_s - p.communication_s);
  return true;
}

std::string cost_text(const Model& model, std::int64_t cost) {
  return human(model.unit.time(cost));
}

// `seconds`: what is left for this mesh.
solver::SolveOptions solve_options(const Model& model, double seconds) {
  const PlanOptions& options = model.options;
  solver::SolveOptions out;
  out.gap = options.gap;
  out.time_limit_s = seconds;
  out.seed = options.seed;
  out.interrupted = options.interrupted;
  if (options.progress) {
    out.progress = [&model](const solver::Progress& p) {
      const bool any = p.cost < solver::kInfinite;
      const bool bounded = p.bound > -solver::kInfinite;
      model.options.progress(fmt::format(
          "{}: {}, {} after {:.1f} s", p.technique,
          any ? "step time " + cost_text(model, p.cost) : "no plan yet",
          bounded ? "bound " + cost_text(model, p.bound) : "no bound yet",
          p.seconds));
    };
  }
  return out;
}

void fill_objective(const Model& model, const solver::Answer& answer,
                    plan::Plan& plan) {
  plan.objective.cost_ps = answer.cost;
  plan.objective.bound_ps = answer.bound;
  plan.objective.unit = model.unit;
  plan.objective.status = std::string(solver::to_string(answer.status));
  plan.objective.covers = fmt::format(
      "mesh {}; regions recomputed whole or not at all; lives of views at "
      "their latest; separable time model without overlap",
      mesh::to_string(model.mesh));
}

// An assembled plan, judged; its bound is the solver's.
Result<plan::Plan> judged(const Model& model, const PlanningProblem& problem,
                          const solver::Answer& answer, int corrections) {
  plan::Plan plan = assemble(model, problem, answer.choice);
  plan.program_version = version();
  fill_objective(model, answer, plan);
  plan.solver = {{"techniques", answer.techniques},
                 {"peak_of_rows_bytes", answer.peak},
                 {"limit_corrections", corrections}};
  SW_RETURN_IF_ERROR(predict(*model.graph, plan));
  return plan;
}

// The rows say that no choice keeps the limit (which may have been lowered).
// The choice with the least peak may keep the limit as given all the same; its
// peak by the judge is what a plan needs.
Result<plan::Plan> plan_of_least_peak(const Model& model,
                                      const PlanningProblem& problem,
                                      solver::Answer answer, std::int64_t bound,
                                      int corrections) {
  const std::int64_t limit = model.options.memory_limit_bytes.value_or(0);
  if (answer.smallest_choice.empty()) return infeasible(model, answer, limit);
  answer.choice = answer.smallest_choice;
  const solver::Evaluation value =
      solver::evaluate(problem.choice, answer.choice);
  answer.cost = value.cost;
  answer.peak = value.peak;
  answer.bound = std::min(bound, answer.cost);
  answer.status = answer.gap() <= model.options.gap ? solver::Status::kOptimal
                                                    : solver::Status::kFeasible;
  SW_ASSIGN_OR_RETURN(plan::Plan plan,
                      judged(model, problem, answer, corrections));
  if (plan.predicted.peak_bytes <= limit) return plan;
  answer.smallest_limit =
      std::max(answer.smallest_limit, plan.predicted.peak_bytes);
  return infeasible(model, answer, limit);
}

tl::unexpected<Error> no_plan(const Model& model, double seconds) {
  return make_error(
      ErrorCode::kInfeasible,
      fmt::format("[planner] no plan was found within {:.1f} s on mesh {}. "
                  "Try: a longer time limit{}.",
                  seconds, mesh::to_string(model.mesh),
                  model.options.memory_limit_bytes ? ", or more memory" : ""));
}

// The choice with the least peak that `seconds` find. By asking for a plan in
// one byte: the search for the least peak then has the presolved problem, and
// gets further than from the problem as it is (solver::smallest_limit).
Result<plan::Plan> least_peak_in_time(const Model& model,
                                      const PlanningProblem& problem,
                                      double seconds, std::int64_t bound,
                                      int corrections) {
  solver::ChoiceProblem tight = problem.choice;
  tight.limit = 1;
  solver::Answer answer = solver::solve(tight, solve_options(model, seconds));
  if (answer.smallest_choice.empty()) {
    return no_plan(model, model.options.time_limit_s);
  }
  return plan_of_least_peak(model, problem, std::move(answer), bound,
                            corrections);
}

// The rows of the choice problem may miss bytes that the judge finds (an op
// that saves nothing where another strategy would moves a recompute). Then the
// limit of the rows is lowered by what they missed, and the first bound, which
// belongs to the limit as given, stays.
Result<plan::Plan> plan_within(const Model& model, PlanningProblem& problem,
                               double seconds) {
  constexpr int kMostCorrections = 4;
  // For the choice with the least peak, where no other is found.
  constexpr double kMostLastSeconds = 10;
  const auto start = Clock::now();
  const std::optional<std::int64_t> limit = model.options.memory_limit_bytes;
  std::optional<std::int64_t> bound;
  for (int corrections = 0;; ++corrections) {
    const double left = std::max(0.1, seconds - seconds_since(start));
    const double last = limit ? std::min(kMostLastSeconds, left / 4) : 0;
    solver::Answer answer =
        solver::solve(problem.choice, solve_options(model, left - last));
    if (answer.status == solver::Status::kInfeasible) {
      return plan_of_least_peak(model, problem, std::move(answer),
                                bound.value_or(0), corrections);
    }
    if (answer.choice.empty()) {
      if (!limit) return no_plan(model, seconds);
      return least_peak_in_time(model, problem, last, bound.value_or(0),
                                corrections);
    }
    if (!bound) bound = answer.bound;
    answer.bound = std::min(*bound, answer.cost);
    if (answer.gap() > model.options.gap) {
      answer.status = solver::Status::kFeasible;
    }
    SW_ASSIGN_OR_RETURN(plan::Plan plan,
                        judged(model, problem, answer, corrections));
    const std::int64_t excess = plan.predicted.peak_bytes - limit.value_or(0);
    if (!limit || excess <= 0) return plan;
    if (corrections == kMostCorrections) {
      return least_peak_in_time(model, problem, last, *bound, corrections);
    }
    *problem.choice.limit -= excess;
  }
}

// `seconds`: what this mesh may take.
Result<plan::Plan> plan_on_mesh(const ir::Graph& graph,
                                const mesh::DeviceMesh& mesh,
                                const PlanOptions& options, double seconds) {
  const auto start = Clock::now();
  SW_ASSIGN_OR_RETURN(const Model model, make_model(graph, mesh, options));
  SW_ASSIGN_OR_RETURN(PlanningProblem problem, make_problem(model));
  const double built = seconds_since(start);
  SW_RETURN_IF_ERROR(solver::validate(problem.choice));
  SW_ASSIGN_OR_RETURN(plan::Plan plan,
                      plan_within(model, problem, seconds - built));
  plan.solver["nodes"] = problem.choice.nodes.size();
  plan.solver["choices"] = num_choices(problem.choice);
  plan.solver["edges"] = problem.choice.edges.size();
  plan.solver["positions"] = problem.choice.num_positions;
  plan.solver["build_s"] = built;
  plan.solver["total_s"] = seconds_since(start);
  return plan;
}

}  // namespace

Result<plan::Plan> make_plan(const ir::Graph& graph,
                             const std::vector<mesh::DeviceMesh>& meshes,
                             const std::string& cluster,
                             const PlanOptions& options) {
  if (meshes.empty()) {
    return make_error(ErrorCode::kInvalidMesh,
                      "[planner] there is no mesh to plan on");
  }
  std::optional<plan::Plan> best;
  std::optional<Error> failure;
  const auto start = Clock::now();
  std::size_t meshes_left = meshes.size();
  for (const mesh::DeviceMesh& mesh : meshes) {
    SW_RETURN_IF_ERROR(mesh::validate(mesh));
    // Each mesh has an equal share of what is left of the time.
    const double seconds = (options.time_limit_s - seconds_since(start)) /
                           static_cast<double>(meshes_left--);
    if (options.progress) {
      options.progress(fmt::format("mesh {}", mesh::to_string(mesh)));
    }
    Result<plan::Plan> plan = plan_on_mesh(graph, mesh, options, seconds);
    if (!plan) {
      // One mesh that cannot hold the model does not end the search.
      if (plan.error().code != ErrorCode::kInfeasible) {
        return tl::unexpected(plan.error());
      }
      if (!failure) failure = plan.error();
      continue;
    }
    plan->cluster = cluster;
    if (!best || plan->objective.time() < best->objective.time()) {
      best = std::move(*plan);
    }
  }
  if (!best) return tl::unexpected(*failure);
  return std::move(*best);
}

Result<solver::ChoiceProblem> make_choice_problem(const ir::Graph& graph,
                                                  const mesh::DeviceMesh& mesh,
                                                  const PlanOptions& options) {
  SW_RETURN_IF_ERROR(mesh::validate(mesh));
  SW_ASSIGN_OR_RETURN(const Model model, make_model(graph, mesh, options));
  SW_ASSIGN_OR_RETURN(PlanningProblem problem, make_problem(model));
  return std::move(problem.choice);
}

}  // namespace shardwright::planner
