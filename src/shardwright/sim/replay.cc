#include "shardwright/sim/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "shardwright/base/check.h"
#include "shardwright/sim/program.h"

namespace shardwright::sim {
namespace {

using cost::Event;
using cost::Handle;
using internal::Program;
using internal::ResolvedStep;

// Storages with reference counts, and the level they add up to.
class Memory {
 public:
  std::int32_t alloc(std::int64_t bytes) {
    bytes_.push_back(bytes);
    references_.push_back(1);
    level_ += bytes;
    peak_ = std::max(peak_, level_);
    return static_cast<std::int32_t>(bytes_.size() - 1);
  }
  void retain(std::int32_t storage) {
    SW_CHECK(references_[index(storage)] > 0, "a freed storage is used");
    ++references_[index(storage)];
  }
  void release(std::int32_t storage) {
    SW_CHECK(references_[index(storage)] > 0, "a storage is freed twice");
    if (--references_[index(storage)] == 0) level_ -= bytes_[index(storage)];
  }
  void touch(std::int64_t transient) {
    peak_ = std::max(peak_, level_ + transient);
  }
  [[nodiscard]] bool solely_owned(std::int32_t storage) const {
    return references_[index(storage)] == 1;
  }
  [[nodiscard]] std::int64_t bytes(std::int32_t storage) const {
    return bytes_[index(storage)];
  }
  [[nodiscard]] std::int64_t level() const { return level_; }
  // Highest level since the last call.
  std::int64_t take_peak() {
    const std::int64_t peak = peak_;
    peak_ = level_;
    return peak;
  }

 private:
  static std::size_t index(std::int32_t s) {
    return static_cast<std::size_t>(s);
  }
  std::vector<std::int64_t> bytes_;
  std::vector<std::int32_t> references_;
  std::int64_t level_ = 0;
  std::int64_t peak_ = 0;
};

std::int64_t bytes_of(const cost::Expr& expr,
                      const std::vector<std::int64_t>& factors) {
  return static_cast<std::int64_t>(std::ceil(expr.value(factors) - 1e-6));
}

class Replay {
 public:
  Replay(const ir::Graph& graph, const plan::Plan& plan, const Program& program,
         const cost::Optimizer& optimizer)
      : graph_(graph), plan_(plan), p_(program), optimizer_(optimizer) {
    variable_.assign(p_.buffers.size(), -1);
    gradient_.assign(p_.buffers.size(), -1);
    addable_.assign(p_.buffers.size(), false);
    saved_.resize(p_.steps.size());
    recomputed_already_.assign(p_.recomputed.size(), false);
    held_.resize(p_.recomputed.size());
  }

  MemoryTimeline run() {
    place_state();
    for (std::size_t s = 0; s < p_.steps.size(); ++s) {
      enter_region(s);
      run_forward(s, variable_, in_recomputed(s) ? Run::kFirst : Run::kOnly);
      drop_variables(s);
      note(s, "forward");
    }
    drop_outputs();
    seed_loss();
    for (std::size_t s = p_.steps.size(); s-- > 0;) {
      run_backward(s);
      leave_region(s);
    }
    optimizer_step();
    return std::move(out_);
  }

 private:
  static std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

  [[nodiscard]] std::int32_t region_of(std::size_t s) const {
    return p_.steps[s].step->region;
  }
  [[nodiscard]] bool in_recomputed(std::size_t s) const {
    return internal::in_recomputed(p_, s);
  }

  void place_state() {
    for (std::size_t b = 0; b < p_.buffers.size(); ++b) {
      const internal::Buffer& buffer = p_.buffers[b];
      if (buffer.producer >= 0) continue;
      variable_[b] = memory_.alloc(buffer.bytes);
      if (graph_.value(buffer.value).kind == ir::ValueKind::kParameter) {
        out_.parameters_bytes += buffer.bytes;
        if (p_.gets_gradient[b]) {
          out_.optimizer_bytes += optimizer_.state_copies * buffer.bytes +
                                  optimizer_.state_constant;
        }
      } else {
        out_.inputs_bytes += buffer.bytes;
      }
    }
    memory_.alloc(out_.optimizer_bytes);
    memory_.alloc(cost::kLoopScalarBytes);
  }

  void note(std::size_t s, const char* phase) {
    const ResolvedStep& step = p_.steps[s];
    const std::string what =
        step.op != nullptr ? step.op->key
                           : fmt::format("conversion of {}", step.step->value);
    record_point(fmt::format("{} of {}", phase, what));
  }
  void record_point(std::string at_text) {
    MemoryPoint point{std::move(at_text), memory_.level(), memory_.take_peak()};
    if (point.peak > out_.peak_bytes) {
      out_.peak_bytes = point.peak;
      out_.peak_at = point.at;
    }
    out_.points.push_back(std::move(point));
  }

  // ---- forward -------------------------------------------------------------

  // A recomputed region's inputs are held by its closure until its backward is
  // over.
  void enter_region(std::size_t s) {
    if (!in_recomputed(s)) return;
    for (const std::int32_t b : p_.steps[s].in) {
      const std::int32_t producer = p_.buffers[at(b)].producer;
      const bool outside =
          producer < 0 || region_of(at(producer)) != region_of(s);
      if (!outside) continue;
      const auto [entry, fresh] =
          input_storage_.emplace(std::pair{region_of(s), b}, variable_[at(b)]);
      if (!fresh) continue;
      memory_.retain(entry->second);
      held_[at(region_of(s))].push_back(entry->second);
    }
  }

  // Storage behind a handle during an op's program.
  struct Locals {
    std::vector<std::int32_t> fresh;      // per new storage, -1
    std::vector<std::int32_t> operands;   // storages
    std::vector<std::int32_t> gradients;  // per result, -1
  };

  std::int32_t resolve(const Handle& handle, const Locals& locals) const {
    switch (handle.kind) {
      case Handle::Kind::kNew:
        return locals.fresh[at(handle.index)];
      case Handle::Kind::kOperand:
        return locals.operands[at(handle.index)];
      case Handle::Kind::kGradient:
        return locals.gradients[at(handle.index)];
      case Handle::Kind::kNone:
        break;
    }
    return -1;
  }

  // Which run of a step it is: the only one, the first of a recomputed region,
  // which saves nothing, or its second.
  enum class Run { kOnly, kFirst, kAgain };

  void run_forward(std::size_t s, std::vector<std::int32_t>& variables,
                   Run run) {
    if (p_.steps[s].op == nullptr) {
      variables[at(p_.steps[s].out[0])] =
          apply(p_.steps[s].forward, variables[at(p_.steps[s].in[0])]);
      return;
    }
    const ResolvedStep& step = p_.steps[s];
    const std::vector<std::int64_t>& factors = step.step->local_factors;
    Locals locals;
    locals.fresh.assign(step.local->sizes.size(), -1);
    for (const std::int32_t b : step.in) {
      locals.operands.push_back(variables[at(b)]);
    }
    const std::vector<std::int32_t> copies = run == Run::kAgain
                                                 ? copy_state(s, locals)
                                                 : std::vector<std::int32_t>();
    for (const Event& event : step.local->forward) {
      if (event.kind == Event::Kind::kAlloc) {
        locals.fresh[at(event.index)] = memory_.alloc(
            bytes_of(step.local->sizes[at(event.index)], factors));
      } else if (event.kind == Event::Kind::kFree) {
        memory_.release(locals.fresh[at(event.index)]);
        locals.fresh[at(event.index)] = -1;
      } else if (event.kind == Event::Kind::kTransient) {
        memory_.touch(bytes_of(event.bytes, factors));
      }
    }
    for (std::size_t r = 0; r < step.out.size(); ++r) {
      const std::int32_t storage = resolve(step.local->results[r], locals);
      if (storage < 0) continue;
      memory_.retain(storage);
      variables[at(step.out[r])] = storage;
    }
    if (run != Run::kFirst) {
      saved_[s].clear();
      for (const Handle& handle : step.local->saved) {
        const std::int32_t storage = saved_storage(s, handle, locals);
        if (storage >= 0) memory_.retain(storage);
        saved_[s].push_back(storage);
      }
    }
    for (const std::int32_t storage : locals.fresh) {
      if (storage >= 0) memory_.release(storage);
    }
    for (const std::int32_t storage : copies) memory_.release(storage);
  }

  // Run again, an op that changes buffers works on copies of them.
  std::vector<std::int32_t> copy_state(std::size_t s, Locals& locals) {
    const ResolvedStep& step = p_.steps[s];
    std::vector<std::int32_t> copies;
    if (!step.op->effect || !step.step->variant.empty()) return copies;
    for (std::size_t k = 0; k < step.in.size(); ++k) {
      const internal::Buffer& buffer = p_.buffers[at(step.in[k])];
      if (graph_.value(buffer.value).kind != ir::ValueKind::kBuffer) continue;
      locals.operands[k] = memory_.alloc(buffer.bytes);
      copies.push_back(locals.operands[k]);
    }
    return copies;
  }

  // Of the copy that a saved tensor lies in and that is gathered again.
  [[nodiscard]] std::int32_t recipe_of(std::size_t s,
                                       const Handle& handle) const {
    if (handle.kind != Handle::Kind::kOperand) return -1;
    return p_.buffers[at(p_.steps[s].in[at(handle.index)])].recipe;
  }

  // What is gathered again is kept as a recipe, not as a tensor.
  std::int32_t saved_storage(std::size_t s, const Handle& handle,
                             const Locals& locals) const {
    return recipe_of(s, handle) >= 0 ? -1 : resolve(handle, locals);
  }

  // A conversion's steps, each a new storage; an empty list shares the source.
  std::int32_t apply(const std::vector<internal::CollectiveMemory>& list,
                     std::int32_t source) {
    memory_.retain(source);
    std::int32_t current = source;
    for (const internal::CollectiveMemory& step : list) {
      memory_.touch(step.bytes + step.transient);
      const std::int32_t next = memory_.alloc(step.bytes);
      memory_.release(current);
      current = next;
    }
    return current;
  }

  // Generated code sets a variable to None behind its last reader.
  void drop_variables(std::size_t s) {
    const ResolvedStep& step = p_.steps[s];
    const auto index = static_cast<std::int32_t>(s);
    std::vector<std::int32_t> done;
    for (const std::int32_t b : step.in) {
      const internal::Buffer& buffer = p_.buffers[at(b)];
      if (buffer.last_reader == index && buffer.producer >= 0 &&
          !is_output(b) &&
          std::find(done.begin(), done.end(), b) == done.end()) {
        done.push_back(b);
      }
    }
    for (const std::int32_t b : step.out) {
      if (p_.buffers[at(b)].last_reader < 0 && !is_output(b)) done.push_back(b);
    }
    for (const std::int32_t b : done) {
      if (variable_[at(b)] < 0) continue;
      memory_.release(variable_[at(b)]);
      variable_[at(b)] = -1;
    }
  }

  [[nodiscard]] bool is_output(std::int32_t b) const {
    if (b == p_.loss) return true;
    return std::any_of(plan_.outputs.begin(), plan_.outputs.end(),
                       [&](const plan::Output& output) {
                         return output.buffer == p_.buffers[at(b)].name;
                       });
  }

  // The training loop keeps only the loss.
  void drop_outputs() {
    for (std::size_t b = 0; b < p_.buffers.size(); ++b) {
      const auto id = static_cast<std::int32_t>(b);
      if (id == p_.loss || p_.buffers[b].producer < 0 || !is_output(id) ||
          variable_[b] < 0) {
        continue;
      }
      memory_.release(variable_[b]);
      variable_[b] = -1;
    }
  }

  // ---- backward ------------------------------------------------------------

  void seed_loss() {
    gradient_[at(p_.loss)] =
        memory_.alloc(p_.buffers[at(p_.loss)].gradient_bytes);
  }

  void run_backward(std::size_t s) {
    const ResolvedStep& step = p_.steps[s];
    const bool any =
        std::any_of(step.out.begin(), step.out.end(),
                    [&](std::int32_t b) { return gradient_[at(b)] >= 0; });
    if (!any) {
      release_saved(s);
      return;
    }
    if (step.op == nullptr) {
      const std::int32_t in = step.in[0];
      const std::int32_t out = step.out[0];
      const std::int32_t given = gradient_[at(out)];
      const std::int32_t made = apply(step.backward, given);
      gradient_[at(out)] = -1;
      memory_.release(given);
      deliver(in, made, true);
      memory_.release(made);
    } else {
      if (step.saves) recompute_region(s);
      op_backward(s);
    }
    note(s, "backward");
  }

  void op_backward(std::size_t s) {
    const ResolvedStep& step = p_.steps[s];
    const std::vector<std::int64_t>& factors = step.step->local_factors;
    Locals locals;
    locals.fresh.assign(step.local->sizes.size(), -1);
    locals.operands.assign(step.in.size(), -1);
    std::vector<bool> dropped(step.out.size(), false);
    for (const std::int32_t b : step.out) {
      locals.gradients.push_back(gradient_[at(b)]);
      gradient_[at(b)] = -1;
    }
    gather_again(s);
    for (const Event& event : step.local->backward) {
      backward_event(s, event, factors, locals, dropped);
    }
    release_saved(s);
    for (std::size_t k = 0; k < step.in.size(); ++k) {
      const std::int32_t storage = resolve(step.local->gradients[k], locals);
      if (storage >= 0 && p_.buffers[at(step.in[k])].differentiable) {
        deliver(step.in[k], storage, step.local->gradients_in_place[k]);
      }
    }
    for (const std::int32_t storage : locals.fresh) {
      if (storage >= 0) memory_.release(storage);
    }
    for (std::size_t r = 0; r < dropped.size(); ++r) {
      if (!dropped[r] && locals.gradients[r] >= 0) {
        memory_.release(locals.gradients[r]);
      }
    }
  }

  void backward_event(std::size_t s, const Event& event,
                      const std::vector<std::int64_t>& factors, Locals& locals,
                      std::vector<bool>& dropped) {
    const auto i = at(event.index);
    switch (event.kind) {
      case Event::Kind::kAlloc:
        locals.fresh[i] =
            memory_.alloc(bytes_of(p_.steps[s].local->sizes[i], factors));
        break;
      case Event::Kind::kFree:
        if (locals.fresh[i] >= 0) memory_.release(locals.fresh[i]);
        locals.fresh[i] = -1;
        break;
      case Event::Kind::kRelease:
        if (saved_[s][i] >= 0) memory_.release(saved_[s][i]);
        saved_[s][i] = -1;
        break;
      case Event::Kind::kDropGrad:
        // Kept when it goes on as the gradient of an operand.
        if (!dropped[i] && locals.gradients[i] >= 0 &&
            !passed_on(s, event.index)) {
          memory_.release(locals.gradients[i]);
          dropped[i] = true;
        }
        break;
      case Event::Kind::kTransient:
        memory_.touch(bytes_of(event.bytes, factors));
        break;
    }
  }

  [[nodiscard]] bool passed_on(std::size_t s, std::int32_t result) const {
    const auto& gradients = p_.steps[s].local->gradients;
    return std::any_of(gradients.begin(), gradients.end(),
                       [&](const Handle& handle) {
                         return handle.kind == Handle::Kind::kGradient &&
                                handle.index == result;
                       });
  }

  // Makes the copies anew that the backward asks for; each lives until the last
  // of the saved tensors in it is released.
  void gather_again(std::size_t s) {
    for (const std::int32_t recipe : internal::gathered_again(p_, s)) {
      const auto& conversions = p_.recipes[at(recipe)].conversions;
      const std::int32_t first = p_.steps[at(conversions.front())].in[0];
      std::int32_t copy = variable_[at(first)];
      memory_.retain(copy);
      for (const std::int32_t conversion : conversions) {
        const std::int32_t next = apply(p_.steps[at(conversion)].forward, copy);
        memory_.release(copy);
        copy = next;
      }
      const auto& saved = p_.steps[s].local->saved;
      for (std::size_t i = 0; i < saved.size(); ++i) {
        if (recipe_of(s, saved[i]) != recipe) continue;
        memory_.retain(copy);
        saved_[s][i] = copy;
      }
      memory_.release(copy);
    }
  }

  void release_saved(std::size_t s) {
    for (std::int32_t& storage : saved_[s]) {
      if (storage >= 0) memory_.release(storage);
      storage = -1;
    }
  }

  // Adds a gradient to a buffer's slot. The engine adds in place when it alone
  // owns the old sum, else into a new one.
  void deliver(std::int32_t b, std::int32_t storage, bool in_place) {
    if (!p_.gets_gradient[at(b)]) return;
    std::int32_t& slot = gradient_[at(b)];
    if (slot < 0) {
      memory_.retain(storage);
      slot = storage;
      addable_[at(b)] = in_place;
      return;
    }
    if (addable_[at(b)] && memory_.solely_owned(slot)) return;
    addable_[at(b)] = true;
    const std::int32_t sum = memory_.alloc(p_.buffers[at(b)].gradient_bytes);
    memory_.release(slot);
    slot = sum;
  }

  void recompute_region(std::size_t s) {
    if (!in_recomputed(s)) return;
    const std::int32_t region = region_of(s);
    if (recomputed_already_[at(region)]) return;
    recomputed_already_[at(region)] = true;
    std::size_t begin = s;
    while (begin > 0 && region_of(begin - 1) == region) --begin;
    const auto end = at(p_.last_saver[at(region)]);
    std::vector<std::int32_t> locals(p_.buffers.size(), -1);
    const auto inside = [&](std::int32_t b) {
      return p_.buffers[at(b)].producer >= static_cast<std::int32_t>(begin) &&
             region_of(at(p_.buffers[at(b)].producer)) == region;
    };
    for (std::size_t t = begin; t <= end; ++t) {
      for (const std::int32_t b : p_.steps[t].in) {
        if (!inside(b)) locals[at(b)] = input_of(region, b);
      }
      run_forward(t, locals, Run::kAgain);
      for (const std::int32_t b : p_.steps[t].in) {
        if (inside(b) && !leaves_region(b, region) &&
            last_reader_inside(b, region) == static_cast<std::int32_t>(t)) {
          if (locals[at(b)] >= 0) memory_.release(locals[at(b)]);
          locals[at(b)] = -1;
        }
      }
      note(t, "recompute");
    }
    for (std::size_t b = 0; b < locals.size(); ++b) {
      if (locals[b] >= 0 && inside(static_cast<std::int32_t>(b))) {
        memory_.release(locals[b]);
      }
    }
  }

  // Storages of region inputs outlive their variables: remember them.
  std::int32_t input_of(std::int32_t region, std::int32_t b) {
    if (variable_[at(b)] >= 0) return variable_[at(b)];
    const auto found = input_storage_.find({region, b});
    SW_CHECK(found != input_storage_.end(),
             "a recomputed region reads a buffer it does not hold");
    return found->second;
  }

  // A region returns what later steps read: its variable stays to the end of
  // the second run as well.
  [[nodiscard]] bool leaves_region(std::int32_t b, std::int32_t region) const {
    const std::int32_t last = p_.buffers[at(b)].last_reader;
    return is_output(b) || (last >= 0 && region_of(at(last)) != region);
  }

  [[nodiscard]] std::int32_t last_reader_inside(std::int32_t b,
                                                std::int32_t region) const {
    std::int32_t last = -1;
    for (std::size_t t = at(p_.buffers[at(b)].producer) + 1;
         t < p_.steps.size() && region_of(t) == region; ++t) {
      const auto& in = p_.steps[t].in;
      if (std::find(in.begin(), in.end(), b) != in.end()) {
        last = static_cast<std::int32_t>(t);
      }
    }
    return last;
  }

  void leave_region(std::size_t s) {
    if (!in_recomputed(s)) return;
    if (s > 0 && region_of(s - 1) == region_of(s)) return;
    for (const std::int32_t storage : held_[at(region_of(s))]) {
      memory_.release(storage);
    }
    held_[at(region_of(s))].clear();
  }

  // ---- optimizer -----------------------------------------------------------

  void optimizer_step() {
    for (const std::int32_t storage : gradient_) {
      if (storage >= 0) out_.gradients_bytes += memory_.bytes(storage);
    }
    std::int64_t previous = 0;
    for (std::size_t b = 0; b < p_.buffers.size(); ++b) {
      if (graph_.value(p_.buffers[b].value).kind != ir::ValueKind::kParameter ||
          p_.buffers[b].producer >= 0 || !p_.gets_gradient[b]) {
        continue;
      }
      const std::int64_t own = p_.buffers[b].bytes;
      memory_.touch(optimizer_.own_copies * own +
                    optimizer_.previous_copies * previous +
                    optimizer_.scalar_bytes);
      previous = own;
    }
    record_point("optimizer step");
  }

  const ir::Graph& graph_;
  const plan::Plan& plan_;
  const Program& p_;
  const cost::Optimizer& optimizer_;
  Memory memory_;
  std::vector<std::int32_t> variable_;            // per buffer: storage, -1
  std::vector<std::int32_t> gradient_;            // per buffer: pending sum, -1
  std::vector<bool> addable_;                     // ... may be added into
  std::vector<std::vector<std::int32_t>> saved_;  // per step
  std::vector<std::vector<std::int32_t>> held_;   // per region
  std::vector<bool> recomputed_already_;
  std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> input_storage_;
  MemoryTimeline out_;
};

}  // namespace

Result<MemoryTimeline> replay(const ir::Graph& graph, const plan::Plan& plan) {
  SW_ASSIGN_OR_RETURN(const Program program, internal::resolve(graph, plan));
  SW_ASSIGN_OR_RETURN(const cost::Optimizer optimizer,
                      cost::optimizer_of(plan.optimizer));
  return Replay(graph, plan, program, optimizer).run();
}

}  // namespace shardwright::sim
