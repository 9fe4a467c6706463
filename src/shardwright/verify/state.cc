#include "shardwright/verify/state.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

namespace shardwright::verify::internal {
namespace {

using cost::Handle;

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

// Batch statistics are used, running ones only brought up to date.
bool is_running_statistic(const ir::Op& op, std::size_t operand) {
  const std::string& argument = op.operand_args[operand];
  if (argument != "running_mean" && argument != "running_var") return false;
  const char* flag =
      op.name == "aten.instance_norm.default" ? "use_input_stats" : "training";
  return op.attrs.value(flag, false);
}

class ChangedState {
 public:
  explicit ChangedState(const Program& program);

  // The changed buffer whose contents the step's results depend on, or null.
  [[nodiscard]] const ir::Value* seen_by(std::size_t step) const;
  // A step within (first, last] that changes what buffer is a view of, or -1.
  [[nodiscard]] std::int32_t changed_between(std::int32_t buffer,
                                             std::int32_t first,
                                             std::int32_t last) const;

 private:
  [[nodiscard]] bool is_changed(std::int32_t buffer) const;
  [[nodiscard]] bool is_read(std::int32_t buffer) const;

  const Program& p_;
  std::vector<std::int32_t> source_;  // per buffer: the source it is a view of
  std::set<std::int32_t> changed_;    // sources
};

ChangedState::ChangedState(const Program& program) : p_(program) {
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    source_.push_back(static_cast<std::int32_t>(b));
  }
  for (const ProgramStep& step : program.steps) {
    if (step.op == nullptr) {
      // Also a part or a gathered copy of a buffer is its state.
      source_[at(step.out[0])] = source_[at(step.in[0])];
      continue;
    }
    for (std::size_t r = 0; r < step.out.size(); ++r) {
      const Handle handle = step.record->results[r];
      if (handle.kind == Handle::Kind::kOperand) {
        source_[at(step.out[r])] = source_[at(step.in[at(handle.index)])];
      }
    }
    if (!step.op->effect) continue;
    for (const std::int32_t b : step.in) {
      const std::int32_t source = source_[at(b)];
      if (p_.value_of(source).kind == ir::ValueKind::kBuffer) {
        changed_.insert(source);
      }
    }
  }
}

std::int32_t ChangedState::changed_between(std::int32_t buffer,
                                           std::int32_t first,
                                           std::int32_t last) const {
  for (std::int32_t s = first + 1; s <= last; ++s) {
    const ProgramStep& step = p_.steps[at(s)];
    if (step.op == nullptr || !step.op->effect) continue;
    for (const std::int32_t b : step.in) {
      if (source_[at(b)] == source_[at(buffer)] && is_changed(b)) return s;
    }
  }
  return -1;
}

bool ChangedState::is_changed(std::int32_t buffer) const {
  return changed_.contains(source_[at(buffer)]);
}

bool ChangedState::is_read(std::int32_t buffer) const {
  const auto& outputs = p_.plan->outputs;
  return !p_.buffer(buffer).readers.empty() ||
         std::any_of(outputs.begin(), outputs.end(),
                     [&](const plan::Output& output) {
                       return output.buffer == p_.buffer(buffer).name;
                     });
}

const ir::Value* ChangedState::seen_by(std::size_t step) const {
  const ProgramStep& entry = p_.steps[step];
  // A conversion changes nothing: what reads its result is asked instead.
  if (entry.op == nullptr) return nullptr;
  const bool only_updates =
      entry.op->effect &&
      std::all_of(entry.out.begin(), entry.out.end(),
                  [&](std::int32_t b) { return is_changed(b) && !is_read(b); });
  if (only_updates) return nullptr;
  for (std::size_t k = 0; k < entry.in.size(); ++k) {
    if (is_changed(entry.in[k]) && !is_running_statistic(*entry.op, k)) {
      return &p_.value_of(source_[at(entry.in[k])]);
    }
  }
  return nullptr;
}

// Nothing that runs again may depend on changed state.
void check_second_runs(const Program& program, const ChangedState& state,
                       Findings& findings) {
  std::set<std::int32_t> recomputed;
  for (const plan::Region& region : program.plan->regions) {
    if (region.recompute) recomputed.insert(region.id);
  }
  for (std::size_t s = 0; s < program.steps.size(); ++s) {
    const plan::Step& step = *program.steps[s].step;
    if (!recomputed.contains(step.region)) continue;
    if (const ir::Value* buffer = state.seen_by(s)) {
      findings.add(fmt::format("region {}", step.region),
                   fmt::format("is recomputed, but '{}' depends on buffer "
                               "'{}', which the step changes",
                               step.op, buffer->name));
    }
  }
}

// A converted copy of a buffer does not see later changes, and a change of it
// is lost.
void check_copies(const Program& program, const ChangedState& state,
                  Findings& findings) {
  for (std::size_t s = 0; s < program.steps.size(); ++s) {
    const ProgramStep& step = program.steps[s];
    if (step.op != nullptr || step.step->forward.empty()) continue;
    const auto& readers = program.buffer(step.out[0]).readers;
    if (readers.empty()) continue;
    const std::int32_t changed = state.changed_between(
        step.in[0], static_cast<std::int32_t>(s), readers.back());
    if (changed >= 0) {
      findings.add(step_name(*program.plan, s),
                   fmt::format("copies a buffer that '{}' changes before the "
                               "copy is read for the last time",
                               program.steps[at(changed)].op->key));
    }
  }
}

}  // namespace

void check_state(const Program& program, Findings& findings) {
  const ChangedState state(program);
  check_second_runs(program, state, findings);
  check_copies(program, state, findings);
}

}  // namespace shardwright::verify::internal
