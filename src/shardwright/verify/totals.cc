#include "shardwright/verify/totals.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "shardwright/cost/kernel_time.h"
#include "shardwright/verify/gathered_again.h"
#include "shardwright/verify/optimizer_table.h"

namespace shardwright::verify::internal {
namespace {

using Key = std::tuple<std::string, std::string, std::int64_t>;

// Costs are sums of numbers rounded to picoseconds, in an order of their own.
constexpr double kRelative = 1e-6;

bool moves_data(const std::string& kind) {
  return kind != "slice" && kind != "make_partial";
}

template <typename List>
void add_times(const List& list, std::int64_t times,
               std::map<Key, std::int64_t>& counts) {
  if (times == 0) return;
  for (const auto& item : list) {
    if (moves_data(item.kind)) {
      counts[Key{item.kind, item.axis, item.bytes}] += times;
    }
  }
}

Seconds collective_seconds(const Program& program, const std::string& kind,
                           const std::string& axis, std::int64_t bytes) {
  const mesh::DeviceMesh& mesh = program.plan->mesh;
  const auto index = static_cast<std::size_t>(mesh.axis_index(axis));
  return mesh::collective_time(*mesh::parse_collective_kind(kind),
                               mesh.axes[index], Bytes(bytes));
}

// Bytes a step copies on the device beside what it sends: pieces along a dim
// other than the first do not lie one after the other.
std::int64_t copied_bytes(const plan::CollectiveStep& step, std::int64_t before,
                          std::int64_t after) {
  if (step.kind == "all_gather") return step.dim != 0 ? after : 0;
  if (step.kind == "reduce_scatter") return step.dim != 0 ? before : 0;
  if (step.kind == "all_to_all") {
    return (step.to_dim != 0 ? before : 0) + (step.dim != 0 ? after : 0);
  }
  return step.kind == "all_reduce" ? 0 : after;
}

std::int64_t chain_cost(const Program& program, const ir::Value& value,
                        const Layout& from,
                        const std::vector<plan::CollectiveStep>& list) {
  const mesh::DeviceMesh& mesh = program.plan->mesh;
  Layout layout = from;
  Seconds total(0);
  for (const plan::CollectiveStep& step : list) {
    Layout next = *after_step(layout, step, mesh);
    const std::int64_t element = ir::size_of(value.dtype);
    const std::int64_t before = held_bytes(value.shape, layout, mesh, element);
    const std::int64_t after = held_bytes(value.shape, next, mesh, element);
    total += collective_seconds(program, step.kind, step.axis,
                                stated_bytes(step.kind, before, after));
    total +=
        mesh::copy_time(mesh.device, Bytes(copied_bytes(step, before, after)));
    layout = std::move(next);
  }
  return program.plan->objective.unit.count(total);
}

// The rate of an op's kernels is that of its first floating result.
std::string rate_of(const Program& program, const ir::Op& op) {
  for (const ValueId id : op.results) {
    const ir::DType dtype = program.graph->value(id).dtype;
    if (ir::is_floating(dtype)) return std::string(to_string(dtype));
  }
  return "float32";
}

std::int64_t op_cost(const Program& program, const ProgramStep& step,
                     bool backward) {
  const auto& kernels =
      backward ? step.record->kernels_backward : step.record->kernels_forward;
  const auto& inside = backward ? step.step->collectives_backward
                                : step.step->collectives_forward;
  Seconds total =
      cost::kernels_time(kernels, step.step->local_factors,
                         program.plan->mesh.device, rate_of(program, *step.op));
  for (const plan::InternalCollective& item : inside) {
    total += collective_seconds(program, item.kind, item.axis, item.bytes);
  }
  return program.plan->objective.unit.count(total);
}

// `gatherings`: how often backward runs the forward list once more.
std::int64_t conversion_cost(const Program& program, std::size_t s,
                             std::int64_t gatherings) {
  const ProgramStep& step = program.steps[s];
  const ir::Value& value = program.value_of(step.in[0]);
  const std::int64_t runs = 1 + (program.runs_again(s) ? 1 : 0) + gatherings;
  const std::int64_t forward =
      chain_cost(program, value, program.buffer(step.in[0]).side.forward,
                 step.step->forward);
  const std::int64_t backward =
      chain_cost(program, value, program.buffer(step.out[0]).side.gradient,
                 step.step->backward);
  return runs * forward + backward;
}

// Of all parameters that an op reads and that are trained.
std::int64_t optimizer_cost(const Program& program,
                            const OptimizerSizes& optimizer) {
  const double bandwidth = program.plan->mesh.device.memory_bandwidth;
  std::int64_t cost = 0;
  for (const Buffer& buffer : program.buffers) {
    const ir::Value& value = program.graph->value(buffer.value);
    if (buffer.producer != kSource || buffer.readers.empty() ||
        value.kind != ir::ValueKind::kParameter || !value.requires_grad) {
      continue;
    }
    const double bytes = optimizer.traffic * static_cast<double>(buffer.bytes);
    cost += program.plan->objective.unit.count(Seconds(bytes / bandwidth));
  }
  return cost;
}

bool near(double a, double b, double slack) {
  return std::abs(a - b) <=
         kRelative * std::max(std::abs(a), std::abs(b)) + slack;
}

void check_collectives(const Program& program, const Report& report,
                       Findings& findings) {
  std::map<Key, std::pair<std::int64_t, std::int64_t>> counts;
  for (const auto& item : report.collectives) {
    counts[Key{item.kind, item.axis, item.bytes}].first += item.count;
  }
  for (const auto& item : program.plan->collectives) {
    counts[Key{item.kind, item.axis, item.bytes}].second += item.count;
  }
  for (const auto& [key, both] : counts) {
    if (both.first == both.second) continue;
    findings.add("collectives",
                 fmt::format("{} over '{}' of {} bytes: expected {}, got {}",
                             std::get<0>(key), std::get<1>(key),
                             std::get<2>(key), both.first, both.second));
  }
}

void check_times(const Program& program, const Report& report,
                 Findings& findings) {
  const plan::Plan& plan = *program.plan;
  const plan::Objective& objective = plan.objective;
  const double slack =
      2.0 * static_cast<double>(program.steps.size() + program.buffers.size());
  if (!near(static_cast<double>(report.objective_ps),
            static_cast<double>(objective.cost_ps), slack)) {
    findings.add("objective",
                 fmt::format("the program costs {}, the plan says {}",
                             report.objective_ps, objective.cost_ps));
  }
  if (objective.bound_ps > objective.cost_ps) {
    findings.add("objective",
                 fmt::format("the bound {} is above the cost {}",
                             objective.bound_ps, objective.cost_ps));
  }
  const double cost_s = objective.time().value;
  if (!near(plan.predicted.time_s, cost_s, 1e-12)) {
    findings.add("predicted.time_s", fmt::format("expected {}, got {}", cost_s,
                                                 plan.predicted.time_s));
  }
  if (!near(plan.predicted.communication_s, report.communication_s, 1e-12)) {
    findings.add("predicted.communication_s",
                 fmt::format("expected {}, got {}", report.communication_s,
                             plan.predicted.communication_s));
  }
}

}  // namespace

std::vector<plan::CollectiveCount> count_again(const Program& program) {
  std::map<Key, std::int64_t> counts;
  const std::vector<std::int64_t> gatherings = runs_for_gathering(program);
  for (std::size_t s = 0; s < program.steps.size(); ++s) {
    const ProgramStep& step = program.steps[s];
    const std::int64_t runs = 1 + (program.runs_again(s) ? 1 : 0);
    const std::int64_t backwards = program.has_backward(s) ? 1 : 0;
    if (step.op != nullptr) {
      add_times(step.step->collectives_forward, runs, counts);
      add_times(step.step->collectives_backward, backwards, counts);
    } else {
      add_times(step.step->forward, runs + gatherings[s], counts);
      add_times(step.step->backward, backwards, counts);
    }
  }
  std::vector<plan::CollectiveCount> out;
  out.reserve(counts.size());
  for (const auto& [key, count] : counts) {
    out.push_back(
        {std::get<0>(key), std::get<1>(key), std::get<2>(key), count});
  }
  return out;
}

Result<std::int64_t> cost_again(const Program& program) {
  const auto optimizer = optimizer_sizes(program.plan->optimizer);
  if (!optimizer) {
    return make_error(
        ErrorCode::kInvalidPlan,
        fmt::format("unknown optimizer '{}'", program.plan->optimizer));
  }
  std::int64_t cost = optimizer_cost(program, *optimizer);
  const std::vector<std::int64_t> gatherings = runs_for_gathering(program);
  for (std::size_t s = 0; s < program.steps.size(); ++s) {
    const ProgramStep& step = program.steps[s];
    if (step.op == nullptr) {
      cost += conversion_cost(program, s, gatherings[s]);
      continue;
    }
    cost += op_cost(program, step, /*backward=*/false) *
                (program.runs_again(s) ? 2 : 1) +
            op_cost(program, step, /*backward=*/true);
  }
  return cost;
}

void check_totals(const Program& program, Report& report, Findings& findings) {
  report.collectives = count_again(program);
  for (const plan::CollectiveCount& item : report.collectives) {
    report.communication_s +=
        static_cast<double>(item.count) *
        collective_seconds(program, item.kind, item.axis, item.bytes).value;
  }
  const auto cost = cost_again(program);
  if (!cost) {
    findings.add("optimizer", cost.error().message);
    return;
  }
  report.objective_ps = *cost;
  check_collectives(program, report, findings);
  check_times(program, report, findings);
}

}  // namespace shardwright::verify::internal
