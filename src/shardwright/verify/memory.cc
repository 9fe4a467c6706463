#include "shardwright/verify/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "shardwright/verify/gathered_again.h"
#include "shardwright/verify/lives.h"
#include "shardwright/verify/optimizer_table.h"

namespace shardwright::verify::internal {
namespace {

using cost::Event;
using cost::Handle;

// Scalars a prediction may hold aside: the training loop's (the loss as a
// number, counters) all the time, an optimizer's update its own.
constexpr std::int64_t kLoopScalars = 64;
constexpr std::int64_t kOptimizerScalars = 64;

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

// A sum over positions: lives as differences, moments on top.
class Levels {
 public:
  explicit Levels(std::int32_t positions)
      : change_(at(positions) + 1, 0), moment_(at(positions), 0) {}

  void live(std::int32_t first, std::int32_t last, std::int64_t bytes) {
    if (last < first) return;
    change_[at(first)] += bytes;
    change_[at(last) + 1] -= bytes;
  }
  void moment(std::int32_t position, std::int64_t bytes) {
    moment_[at(position)] += bytes;
  }
  [[nodiscard]] std::vector<std::int64_t> sums() const {
    std::vector<std::int64_t> out;
    std::int64_t level = 0;
    for (std::size_t p = 0; p < moment_.size(); ++p) {
      level += change_[p];
      out.push_back(level + moment_[p]);
    }
    return out;
  }

 private:
  std::vector<std::int64_t> change_, moment_;
};

// Highest sum of an op's allocations, saved tensors and gradients it drops
// staying alive.
std::int64_t highest(const std::vector<Event>& events,
                     const ProgramStep& step) {
  std::int64_t level = 0;
  std::int64_t peak = 0;
  for (const Event& event : events) {
    std::int64_t moment = 0;
    if (event.kind == Event::Kind::kAlloc) {
      level += bytes_at(step.record->sizes[at(event.index)], step);
    } else if (event.kind == Event::Kind::kFree) {
      level -= bytes_at(step.record->sizes[at(event.index)], step);
    } else if (event.kind == Event::Kind::kTransient) {
      moment = bytes_at(event.bytes, step);
    }
    peak = std::max(peak, level + moment);
  }
  return peak;
}

// What an op allocates forward beyond the storages that outlive it.
std::int64_t forward_moment(const ProgramStep& step) {
  std::set<std::int32_t> stays;
  for (const auto* list : {&step.record->results, &step.record->saved}) {
    for (const Handle& handle : *list) {
      if (handle.kind == Handle::Kind::kNew) stays.insert(handle.index);
    }
  }
  std::int64_t kept = 0;
  for (const std::int32_t j : stays) {
    kept += bytes_at(step.record->sizes[at(j)], step);
  }
  return std::max<std::int64_t>(0, highest(step.record->forward, step) - kept);
}

// Gradients: which step delivers them first, and how.
struct Gradient {
  std::int32_t first = -1;  // backward position, -1: none arrives
  std::int32_t last = -1;
  bool shared = false;  // the first one is another gradient's storage
  std::int32_t arrivals = 0;
  std::int64_t least = 0, most = 0;  // bytes of its storage
};

class Estimator {
 public:
  Estimator(const Program& program, const OptimizerSizes& optimizer)
      : p_(program),
        optimizer_(optimizer),
        positions_(positions_of(program)),
        upper_(positions_.count()),
        begin_(positions_.count()),
        end_(positions_.count()),
        gradients_(program.buffers.size()) {}

  PeakEstimate run() {
    add_state();
    for (const Life& life : storage_lives(p_, positions_)) {
      upper_.live(life.first, life.last, life.bytes);
      begin_.live(life.first, life.last, life.bytes);
      end_.live(life.first, end_of_lower(life), life.bytes);
    }
    for (std::size_t s = 0; s < p_.steps.size(); ++s) add_forward(s);
    collect_gradients();
    extend_shared();
    add_gradients();
    add_update();
    take_peaks();
    return out_;
  }

 private:
  [[nodiscard]] const mesh::DeviceMesh& mesh() const { return p_.plan->mesh; }

  void everywhere(std::int64_t bytes) {
    for (Levels* levels : {&upper_, &begin_, &end_}) {
      levels->live(0, positions_.optimizer, bytes);
    }
  }

  // At the end of a backward step what it was the last to need may be gone.
  [[nodiscard]] std::int32_t end_of_lower(const Life& life) const {
    return life.last >= static_cast<std::int32_t>(p_.steps.size()) &&
                   life.last < positions_.optimizer
               ? life.last - 1
               : life.last;
  }

  void add_state() {
    for (const Buffer& buffer : p_.buffers) {
      if (buffer.producer != kSource) continue;
      const ir::Value& value = p_.graph->value(buffer.value);
      if (value.kind != ir::ValueKind::kParameter) {
        out_.inputs_bytes += buffer.bytes;
        continue;
      }
      out_.parameters_bytes += buffer.bytes;
      if (!buffer.has_gradient) continue;
      out_.gradients_bytes += buffer.bytes;
      out_.optimizer_bytes +=
          optimizer_.state_copies * buffer.bytes + optimizer_.state_constant;
    }
    everywhere(out_.parameters_bytes + out_.optimizer_bytes +
               out_.inputs_bytes);
    upper_.live(0, positions_.optimizer, kLoopScalars);
  }

  // ---- forward, recompute --------------------------------------------------

  void add_forward(std::size_t s) {
    const ProgramStep& step = p_.steps[s];
    for (const std::int32_t position :
         {positions_.forward[s], positions_.again[s]}) {
      if (position < 0) continue;
      if (step.op == nullptr) {
        upper_.moment(position, chain_moment(step, /*backward=*/false));
        continue;
      }
      const std::int64_t moment = forward_moment(step);
      for (Levels* levels : {&upper_, &begin_, &end_}) {
        levels->moment(position, moment);
      }
    }
    if (positions_.again[s] >= 0) add_copied_state(s);
  }

  // What a second run of an op changes are copies of the buffers; they may be
  // kept for its backward.
  void add_copied_state(std::size_t s) {
    const ProgramStep& step = p_.steps[s];
    if (step.op == nullptr || !step.op->effect || !step.step->variant.empty()) {
      return;
    }
    for (std::size_t k = 0; k < step.in.size(); ++k) {
      if (p_.value_of(step.in[k]).kind != ir::ValueKind::kBuffer) continue;
      const std::int64_t bytes = p_.buffer(step.in[k]).bytes;
      upper_.live(positions_.again[s], positions_.backward[s], bytes);
      begin_.moment(positions_.again[s], bytes);
      end_.moment(positions_.again[s], bytes);
    }
  }

  // At the worst a collective packs its input and receives into a buffer as
  // large as all ranks' parts.
  [[nodiscard]] std::int64_t chain_moment(const ProgramStep& step,
                                          bool backward) const {
    const ir::Value& value = p_.value_of(step.in[0]);
    const auto& list = backward ? step.step->backward : step.step->forward;
    Layout layout = backward ? p_.buffer(step.out[0]).side.gradient
                             : p_.buffer(step.in[0]).side.forward;
    const std::int64_t element = ir::size_of(value.dtype);
    std::int64_t peak = 0;
    std::int64_t held = 0;
    for (const plan::CollectiveStep& item : list) {
      Layout next = *after_step(layout, item, mesh());
      const auto axis = at(mesh().axis_index(item.axis));
      const std::int64_t in = held_bytes(value.shape, layout, mesh(), element);
      const std::int64_t out = held_bytes(value.shape, next, mesh(), element);
      const std::int64_t received =
          item.kind == "reduce_scatter" ? out * mesh().axes[axis].size : out;
      const bool local = item.kind == "slice" || item.kind == "make_partial" ||
                         item.kind == "all_reduce";
      peak = std::max(peak, held + out + (local ? 0 : in + received));
      held = out;
      layout = std::move(next);
    }
    return std::max<std::int64_t>(0, peak - held);
  }

  // ---- gradients -----------------------------------------------------------

  void collect_gradients() {
    const auto n = static_cast<std::int32_t>(p_.steps.size());
    Gradient& loss = gradients_[at(p_.loss)];
    loss.first = n;
    loss.arrivals = 1;
    loss.least = loss.most = p_.buffer(p_.loss).gradient_bytes;
    for (std::size_t s = p_.steps.size(); s-- > 0;) {
      if (!p_.has_backward(s)) continue;
      if (p_.steps[s].op == nullptr) {
        deliver_conversion(s);
      } else {
        deliver_op(s);
      }
    }
    for (std::size_t b = 0; b < p_.buffers.size(); ++b) {
      const std::int32_t producer = p_.buffers[b].producer;
      gradients_[b].last = producer < 0 ? positions_.optimizer
                                        : positions_.backward[at(producer)];
    }
  }

  void arrive(std::int32_t b, std::size_t s, bool shared, std::int64_t bytes) {
    if (!p_.buffer(b).has_gradient) return;
    Gradient& gradient = gradients_[at(b)];
    const std::int64_t own = p_.buffer(b).gradient_bytes;
    if (gradient.arrivals++ == 0) {
      gradient.first = positions_.backward[s];
      gradient.shared = shared;
      gradient.least = std::min(own, bytes);
      gradient.most = std::max(own, bytes);
      return;
    }
    // A later one: it and a new sum beside the old sum.
    upper_.moment(positions_.backward[s], bytes + own);
  }

  void deliver_conversion(std::size_t s) {
    const ProgramStep& step = p_.steps[s];
    const std::int32_t in = step.in[0];
    const bool shared = step.step->backward.empty();
    arrive(in, s, shared, p_.buffer(in).gradient_bytes);
    upper_.moment(positions_.backward[s], chain_moment(step, true));
  }

  void deliver_op(std::size_t s) {
    const ProgramStep& step = p_.steps[s];
    const std::int32_t position = positions_.backward[s];
    std::set<std::int32_t> counted;  // new storages that are first gradients
    std::int64_t first_bytes = 0;
    for (std::size_t k = 0; k < step.in.size(); ++k) {
      const Handle handle = p_.gradient_of(s, k);
      const std::int32_t b = step.in[k];
      if (handle.kind == Handle::Kind::kNew) {
        const std::int64_t bytes =
            bytes_at(step.record->sizes[at(handle.index)], step);
        const bool fresh = counted.insert(handle.index).second;
        if (fresh && p_.buffer(b).has_gradient &&
            gradients_[at(b)].arrivals == 0) {
          first_bytes += bytes;
        }
        arrive(b, s, !fresh, bytes);
      } else if (handle.kind == Handle::Kind::kGradient) {
        arrive(b, s, true, p_.buffer(b).gradient_bytes);
      }
    }
    for (const auto& gathering : gatherings_in_backward(p_, s)) {
      gather_again(s, gathering);
    }
    upper_.moment(position,
                  std::max<std::int64_t>(
                      0, highest(step.record->backward, step) - first_bytes));
  }

  // The copy is there from the beginning of the op's backward; on the way to it
  // at the worst all copies before it are, too.
  void gather_again(std::size_t s, const std::vector<std::int32_t>& gathering) {
    const std::int32_t position = positions_.backward[s];
    begin_.moment(position, copy_bytes(gathering.back()));
    for (const std::int32_t conversion : gathering) {
      upper_.moment(position, copy_bytes(conversion) +
                                  chain_moment(p_.steps[at(conversion)],
                                               /*backward=*/false));
    }
  }

  [[nodiscard]] std::int64_t copy_bytes(std::int32_t conversion) const {
    return p_.buffer(p_.steps[at(conversion)].out[0]).bytes;
  }

  // A gradient handed on keeps the storage it came in: the result's gradient
  // lives as long as that of the operand it became.
  void extend_shared() {
    for (std::size_t s = 0; s < p_.steps.size(); ++s) {
      const ProgramStep& step = p_.steps[s];
      if (step.op == nullptr) {
        if (step.step->backward.empty()) extend(step.out[0], step.in[0]);
        continue;
      }
      for (std::size_t k = 0; k < step.in.size(); ++k) {
        const Handle handle = p_.gradient_of(s, k);
        if (handle.kind == Handle::Kind::kGradient) {
          extend(step.out[at(handle.index)], step.in[k]);
        }
      }
    }
  }

  void extend(std::int32_t result, std::int32_t operand) {
    if (!p_.buffer(operand).has_gradient) return;
    std::int32_t& last = gradients_[at(result)].last;
    last = std::max(last, gradients_[at(operand)].last);
  }

  void add_gradients() {
    for (std::size_t b = 0; b < p_.buffers.size(); ++b) {
      const Gradient& gradient = gradients_[b];
      if (gradient.arrivals == 0) continue;
      const std::int32_t first = gradient.first;
      // Alone and shared, it is counted where it came from.
      if (!gradient.shared || gradient.arrivals > 1) {
        upper_.live(first, gradient.last, gradient.most);
      }
      if (gradient.shared) continue;
      const std::int32_t producer = p_.buffers[b].producer;
      const bool stays = producer < 0;
      const std::int32_t used =
          stays ? positions_.optimizer : positions_.backward[at(producer)];
      begin_.live(first + 1, used, gradient.least);
      end_.live(first, stays ? used : used - 1, gradient.least);
    }
  }

  // ---- optimizer -----------------------------------------------------------

  void add_update() {
    std::int64_t largest = 0;
    for (const Buffer& buffer : p_.buffers) {
      const bool trained =
          buffer.producer == kSource && buffer.has_gradient &&
          p_.graph->value(buffer.value).kind == ir::ValueKind::kParameter;
      if (trained) largest = std::max(largest, buffer.bytes);
    }
    const std::int32_t position = positions_.optimizer;
    upper_.moment(position,
                  optimizer_.most_working * largest + kOptimizerScalars);
    begin_.moment(position, optimizer_.least_working * largest);
  }

  void take_peaks() {
    const auto upper = upper_.sums();
    const auto highest_at = std::max_element(upper.begin(), upper.end());
    out_.upper = *highest_at;
    out_.upper_at = position_text(
        p_, positions_, static_cast<std::int32_t>(highest_at - upper.begin()));
    for (const Levels* levels : {&begin_, &end_}) {
      const auto sums = levels->sums();
      out_.lower =
          std::max(out_.lower, *std::max_element(sums.begin(), sums.end()));
    }
  }

  const Program& p_;
  const OptimizerSizes& optimizer_;
  Positions positions_;
  Levels upper_;
  Levels begin_, end_;  // lower: at a step's beginning, and at its end
  std::vector<Gradient> gradients_;  // per buffer
  PeakEstimate out_;
};

void check_sum(const char* name, std::int64_t expected, std::int64_t got,
               Findings& findings) {
  if (expected == got) return;
  findings.add(fmt::format("predicted.{}", name),
               fmt::format("expected {}, got {}", expected, got));
}

}  // namespace

Result<PeakEstimate> estimate_peak(const Program& program) {
  const auto optimizer = optimizer_sizes(program.plan->optimizer);
  if (!optimizer) {
    return make_error(
        ErrorCode::kInvalidPlan,
        fmt::format("unknown optimizer '{}'", program.plan->optimizer));
  }
  return Estimator(program, *optimizer).run();
}

void check_memory(const Program& program, Report& report, Findings& findings) {
  const auto estimate = estimate_peak(program);
  if (!estimate) return;  // check_totals has said why
  report.lowest_peak_bytes = estimate->lower;
  report.peak_bytes = estimate->upper;
  report.peak_at = estimate->upper_at;
  const plan::Prediction& predicted = program.plan->predicted;
  if (predicted.peak_bytes < estimate->lower ||
      predicted.peak_bytes > estimate->upper) {
    findings.add("predicted.peak_bytes",
                 fmt::format("expected between {} and {} (at {}), got {}",
                             estimate->lower, estimate->upper,
                             estimate->upper_at, predicted.peak_bytes));
  }
  check_sum("parameters_bytes", estimate->parameters_bytes,
            predicted.parameters_bytes, findings);
  check_sum("optimizer_bytes", estimate->optimizer_bytes,
            predicted.optimizer_bytes, findings);
  check_sum("inputs_bytes", estimate->inputs_bytes, predicted.inputs_bytes,
            findings);
  if (predicted.gradients_bytes < estimate->gradients_bytes) {
    findings.add(
        "predicted.gradients_bytes",
        fmt::format("expected at least {}, got {}", estimate->gradients_bytes,
                    predicted.gradients_bytes));
  }
  const auto& limit = program.plan->memory_limit_bytes;
  if (!limit) return;
  const std::int64_t least = std::max(predicted.peak_bytes, estimate->lower);
  if (least > *limit) {
    findings.add(
        "memory_limit_bytes",
        fmt::format("a step needs {} bytes, the limit is {}", least, *limit));
  }
}

}  // namespace shardwright::verify::internal
