#include "shardwright/verify/gathered_again.h"

#include <set>

namespace shardwright::verify::internal {
namespace {

using cost::Handle;

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

bool in_recomputed_region(const Program& program, std::int32_t step) {
  return program.last_again.contains(program.steps[at(step)].step->region);
}

struct Origin {
  std::vector<std::int32_t> conversions;
  bool view = false;  // an op's view of the copy
};

// Back from the buffer to where its storage was made.
Origin origin_of(const Program& program, std::int32_t buffer) {
  const std::int32_t producer = program.buffer(buffer).producer;
  if (producer == kSource) return {};
  const ProgramStep& step = program.steps[at(producer)];
  if (step.op != nullptr) {
    for (std::size_t r = 0; r < step.out.size(); ++r) {
      const Handle& handle = step.record->results[r];
      if (step.out[r] != buffer || handle.kind != Handle::Kind::kOperand) {
        continue;
      }
      Origin origin = origin_of(program, step.in[at(handle.index)]);
      origin.view = true;
      return origin;
    }
    return {};
  }
  Origin origin = origin_of(program, step.in[0]);
  if (step.step->forward.empty()) return origin;
  const bool from_copy = !origin.conversions.empty() && !origin.view;
  const bool starts =
      step.step->regather && !in_recomputed_region(program, producer);
  if (!from_copy) origin = {};
  if (from_copy || starts) origin.conversions.push_back(producer);
  return origin;
}

}  // namespace

std::vector<std::int32_t> gathering_of(const Program& program,
                                       std::int32_t buffer) {
  return origin_of(program, buffer).conversions;
}

std::vector<std::vector<std::int32_t>> gatherings_in_backward(
    const Program& program, std::size_t step) {
  const ProgramStep& reader = program.steps[step];
  if (reader.op == nullptr || !program.has_backward(step)) return {};
  std::set<std::vector<std::int32_t>> found;
  for (const Handle& handle : reader.record->saved) {
    if (handle.kind != Handle::Kind::kOperand) continue;
    found.insert(gathering_of(program, reader.in[at(handle.index)]));
  }
  found.erase(std::vector<std::int32_t>{});
  return {found.begin(), found.end()};
}

std::vector<std::int64_t> runs_for_gathering(const Program& program) {
  std::vector<std::int64_t> runs(program.steps.size(), 0);
  for (std::size_t s = 0; s < program.steps.size(); ++s) {
    for (const auto& gathering : gatherings_in_backward(program, s)) {
      for (const std::int32_t conversion : gathering) ++runs[at(conversion)];
    }
  }
  return runs;
}

void check_regathers(const Program& program, Findings& findings) {
  for (std::size_t s = 0; s < program.steps.size(); ++s) {
    const ProgramStep& step = program.steps[s];
    const std::string where = step_name(*program.plan, s);
    if (step.op != nullptr) {
      if (!in_recomputed_region(program, static_cast<std::int32_t>(s))) {
        continue;
      }
      for (const std::int32_t b : step.in) {
        const auto gathering = gathering_of(program, b);
        if (gathering.empty()) continue;
        findings.add(step_name(*program.plan, at(gathering.front())),
                     "is to be gathered again for a reader that is itself "
                     "recomputed");
      }
      continue;
    }
    if (!step.step->regather) continue;
    if (in_recomputed_region(program, static_cast<std::int32_t>(s))) {
      findings.add(where, "is to be gathered again, but is itself recomputed");
    }
    if (program.buffer(step.in[0]).producer != kSource) {
      findings.add(where,
                   "is to be gathered again from a buffer that is gone "
                   "by then");
    }
    if (step.step->forward.empty()) {
      findings.add(where, "is to be gathered again, but gathers nothing");
    }
  }
}

}  // namespace shardwright::verify::internal
