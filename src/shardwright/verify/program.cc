#include "shardwright/verify/program.h"

#include <fmt/format.h>

#include <algorithm>

namespace shardwright::verify::internal {
namespace {

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

// One pass over the steps. Each function returns false when what follows could
// not be judged any more.
class Follower {
 public:
  Follower(const ir::Graph& graph, const plan::Plan& plan, Program& program,
           Findings& findings)
      : graph_(graph), plan_(plan), out_(program), findings_(findings) {
    out_.graph = &graph;
    out_.plan = &plan;
    for (std::size_t i = 0; i < graph.values.size(); ++i) {
      values_.emplace(graph.values[i].name, ValueId(i));
    }
    for (std::size_t i = 0; i < graph.ops.size(); ++i) {
      ops_.emplace(graph.ops[i].key, i);
    }
    runs_.assign(graph.ops.size(), 0);
  }

  bool run() {
    bool whole = add_sources();
    for (std::size_t s = 0; s < plan_.steps.size(); ++s) {
      const plan::Step& step = plan_.steps[s];
      where_ = step_name(plan_, s);
      out_.steps.push_back(
          ProgramStep{&step, nullptr, nullptr, nullptr, {}, {}});
      const bool followed =
          read_inputs(s) &&
          (step.kind == plan::StepKind::kConvert ? follow_conversion(s)
                                                 : follow_op(s));
      whole = whole && followed;
      if (!followed) break;  // later steps would only repeat the damage
    }
    if (whole) whole = all_ops_ran() && find_loss();
    return whole;
  }

 private:
  void report(std::string what) { findings_.add(where_, std::move(what)); }

  std::string text(const Layout& layout) const {
    return sharding::to_string(layout, plan_.mesh);
  }

  std::int64_t bytes_of(const ir::Value& value, const Layout& layout) const {
    return held_bytes(value.shape, layout, plan_.mesh,
                      ir::size_of(value.dtype));
  }

  bool add_buffer(const std::string& name, ValueId id, Side side,
                  std::int32_t producer) {
    const ir::Value& value = graph_.value(id);
    Buffer buffer;
    buffer.name = name;
    buffer.value = id;
    buffer.producer = producer;
    buffer.bytes = bytes_of(value, side.forward);
    if (value.requires_grad) {
      buffer.gradient_bytes = bytes_of(value, side.gradient);
    }
    buffer.side = std::move(side);
    const auto number = static_cast<std::int32_t>(out_.buffers.size());
    if (!out_.buffer_of.emplace(name, number).second) {
      report(fmt::format("buffer '{}' is made twice", name));
      return false;
    }
    out_.buffers.push_back(std::move(buffer));
    return true;
  }

  // Parameters in storage, everything else whole on every rank.
  bool add_sources() {
    std::map<std::string, std::string> storage;
    for (const plan::StoredParameter& parameter : plan_.parameters) {
      storage[parameter.name] = parameter.storage;
    }
    for (std::size_t i = 0; i < graph_.values.size(); ++i) {
      const ir::Value& value = graph_.values[i];
      if (value.kind == ir::ValueKind::kActivation) continue;
      Layout layout = sharding::replicated(value.shape.size());
      if (value.kind == ir::ValueKind::kParameter) {
        const auto stored = storage.find(value.name);
        if (stored == storage.end()) return false;  // check_parameters says so
        auto read = read_layout(stored->second, value.shape.size(), plan_.mesh);
        if (!read) return false;
        layout = std::move(*read);
      }
      if (!add_buffer(value.name, ValueId(i), Side{layout, layout}, kSource)) {
        return false;
      }
    }
    return true;
  }

  bool read_inputs(std::size_t s) {
    for (const std::string& name : plan_.steps[s].in) {
      const auto found = out_.buffer_of.find(name);
      if (found == out_.buffer_of.end()) {
        report(fmt::format("reads buffer '{}' before it exists", name));
        return false;
      }
      out_.steps[s].in.push_back(found->second);
      auto& readers = out_.buffers[at(found->second)].readers;
      const auto step = static_cast<std::int32_t>(s);
      if (readers.empty() || readers.back() != step) readers.push_back(step);
    }
    return true;
  }

  // ---- conversions ---------------------------------------------------------

  bool follow_conversion(std::size_t s) {
    const plan::Step& step = plan_.steps[s];
    ProgramStep& followed = out_.steps[s];
    if (followed.in.size() != 1 || step.out.size() != 1) {
      report("a conversion has one input and one output");
      return false;
    }
    const Buffer& source = out_.buffer(followed.in[0]);
    const ir::Value& value = graph_.value(source.value);
    if (step.value != value.name) {
      report(fmt::format("converts '{}', but buffer '{}' holds '{}'",
                         step.value, source.name, value.name));
    }
    if (step.shape != value.shape || step.dtype != to_string(value.dtype)) {
      report(fmt::format("expected {} [{}], got {} [{}]",
                         to_string(value.dtype), fmt::join(value.shape, ", "),
                         step.dtype, fmt::join(step.shape, ", ")));
    }
    Side target;
    if (!read(step.to, value, target.forward) ||
        !read(step.to_grad, value, target.gradient)) {
      return false;
    }
    check_start(step, source, value);
    check_chain(value, step.forward, source.side.forward, target.forward,
                "forward");
    if (value.requires_grad) {
      check_chain(value, step.backward, target.gradient, source.side.gradient,
                  "backward");
      check_pair(target, "to");
    } else if (!step.backward.empty()) {
      report("converts backward a value that takes no gradient");
    }
    if (!add_buffer(step.out[0], source.value, std::move(target),
                    static_cast<std::int32_t>(s))) {
      return false;
    }
    followed.out = {static_cast<std::int32_t>(out_.buffers.size() - 1)};
    return true;
  }

  bool read(const std::string& spec, const ir::Value& value, Layout& out) {
    auto layout = read_layout(spec, value.shape.size(), plan_.mesh);
    if (!layout) {
      report(layout.error().message);
      return false;
    }
    out = std::move(*layout);
    return true;
  }

  void check_start(const plan::Step& step, const Buffer& source,
                   const ir::Value& value) {
    if (text(source.side.forward) != step.from) {
      report(fmt::format("converts from {}, but '{}' lies as {}", step.from,
                         source.name, text(source.side.forward)));
    }
    if (value.requires_grad && text(source.side.gradient) != step.from_grad) {
      report(fmt::format("gives its gradient back as {}, but '{}' takes {}",
                         step.from_grad, source.name,
                         text(source.side.gradient)));
    }
  }

  // The steps lead from one layout to the other, each as it states.
  void check_chain(const ir::Value& value,
                   const std::vector<plan::CollectiveStep>& list,
                   const Layout& from, const Layout& to, const char* way) {
    Layout layout = from;
    for (const plan::CollectiveStep& step : list) {
      auto next = after_step(layout, step, plan_.mesh);
      if (!next) {
        report(fmt::format("{}: {}", way, next.error().message));
        return;
      }
      if (text(*next) != step.after) {
        report(fmt::format(
            "{}: a {} over '{}' of {} gives {}, the plan says "
            "{}",
            way, step.kind, step.axis, text(layout), text(*next), step.after));
      }
      const std::int64_t bytes = stated_bytes(
          step.kind, bytes_of(value, layout), bytes_of(value, *next));
      if (bytes != step.bytes) {
        report(
            fmt::format("{}: a {} over '{}' moves {} bytes, the plan says "
                        "{}",
                        way, step.kind, step.axis, bytes, step.bytes));
      }
      layout = std::move(*next);
    }
    if (layout != to) {
      report(fmt::format("{}: the steps lead to {}, expected {}", way,
                         text(layout), text(to)));
    }
  }

  // On one axis a tensor and its gradient are both whole, both split alike, or
  // one is whole and the other partial.
  void check_pair(const Side& side, const char* which) {
    for (std::size_t a = 0; a < plan_.mesh.axes.size(); ++a) {
      const auto axis = static_cast<std::int32_t>(a);
      const std::int32_t dim = dim_split(side.forward, axis);
      const bool partial = is_partial(side.forward, axis);
      const bool delayed = is_partial(side.gradient, axis);
      if (dim == dim_split(side.gradient, axis) && !(partial && delayed)) {
        continue;
      }
      report(
          fmt::format("{} = {} with gradient {} is no pair of layouts a "
                      "tensor can have on axis '{}'",
                      which, text(side.forward), text(side.gradient),
                      plan_.mesh.axes[a].name));
    }
  }

  static std::int32_t dim_split(const Layout& layout, std::int32_t axis) {
    for (std::size_t d = 0; d < layout.dims.size(); ++d) {
      const auto& axes = layout.dims[d];
      if (std::find(axes.begin(), axes.end(), axis) != axes.end()) {
        return static_cast<std::int32_t>(d);
      }
    }
    return -1;
  }
  static bool is_partial(const Layout& layout, std::int32_t axis) {
    const auto& list = layout.partial;
    return std::find(list.begin(), list.end(), axis) != list.end();
  }

  // ---- ops -----------------------------------------------------------------

  bool follow_op(std::size_t s) {
    const plan::Step& step = plan_.steps[s];
    const auto found = ops_.find(step.op);
    if (found == ops_.end()) {
      report(fmt::format("the graph has no op '{}'", step.op));
      return false;
    }
    const ir::Op& op = graph_.ops[found->second];
    out_.steps[s].op = &op;
    if (++runs_[found->second] > 1) {
      report("the op is run more than once");
      return false;
    }
    if (step.in.size() != op.operands.size() ||
        step.in_specs.size() != op.operands.size() ||
        step.out.size() != op.results.size() ||
        step.out_specs.size() != op.results.size()) {
      report(fmt::format("expected {} operands and {} results, got {} and {}",
                         op.operands.size(), op.results.size(), step.in.size(),
                         step.out.size()));
      return false;
    }
    if (!reads_its_operands(s, op)) return false;
    const auto rule = rules::rule_of(graph_, op);
    auto split = derive_split(graph_, op, rule, step.strategy, plan_.mesh);
    if (!split) {
      report(split.error().message);
      return false;
    }
    check_operands(s, op, *split);
    check_results(step, *split);
    check_local(step, *split);
    return find_record(s, op, *split) && add_results(s, op, *split);
  }

  bool reads_its_operands(std::size_t s, const ir::Op& op) {
    bool right = true;
    for (std::size_t k = 0; k < op.operands.size(); ++k) {
      const Buffer& buffer = out_.buffer(out_.steps[s].in[k]);
      if (buffer.value == op.operands[k]) continue;
      report(fmt::format("operand {} is '{}', but buffer '{}' holds '{}'", k,
                         graph_.value(op.operands[k]).name, buffer.name,
                         graph_.value(buffer.value).name));
      right = false;
    }
    return right;
  }

  void check_operands(std::size_t s, const ir::Op& op, const OpSplit& split) {
    const plan::Step& step = plan_.steps[s];
    for (std::size_t k = 0; k < op.operands.size(); ++k) {
      const Buffer& buffer = out_.buffer(out_.steps[s].in[k]);
      const Side& wanted = split.operands[k];
      if (step.in_specs[k] != text(buffer.side.forward)) {
        report(fmt::format("operand {}: the step says {}, but '{}' lies as {}",
                           k, step.in_specs[k], buffer.name,
                           text(buffer.side.forward)));
      }
      if (buffer.side.forward != wanted.forward) {
        report(operand_text(k, buffer, wanted));
      }
      if (graph_.value(op.operands[k]).requires_grad &&
          buffer.side.gradient != wanted.gradient) {
        report(fmt::format(
            "operand {}: the op gives a gradient {}, but '{}' "
            "takes {}",
            k, text(wanted.gradient), buffer.name, text(buffer.side.gradient)));
      }
    }
  }

  std::string operand_text(std::size_t k, const Buffer& buffer,
                           const Side& wanted) const {
    const bool partial =
        buffer.side.forward.partial != wanted.forward.partial &&
        !buffer.side.forward.partial.empty();
    return fmt::format("operand {}: expected {}, got {} ('{}'){}", k,
                       text(wanted.forward), text(buffer.side.forward),
                       buffer.name,
                       partial ? ": the op cannot take this partial sum" : "");
  }

  void check_results(const plan::Step& step, const OpSplit& split) {
    for (std::size_t r = 0; r < step.out.size(); ++r) {
      const std::string wanted = text(split.results[r].forward);
      if (step.out_specs[r] == wanted) continue;
      report(
          fmt::format("result {}: split as '{}' it lies as {}, the plan "
                      "says {}",
                      r, step.strategy, wanted, step.out_specs[r]));
    }
  }

  void check_local(const plan::Step& step, const OpSplit& split) {
    if (step.local_factors != split.local_factors) {
      report(fmt::format("local factors: expected [{}], got [{}]",
                         fmt::join(split.local_factors, ", "),
                         fmt::join(step.local_factors, ", ")));
    }
    if (step.variant != split.variant ||
        !same_json(step.variant_args, split.variant_args)) {
      report(
          fmt::format("special implementation: expected '{}' {}, got '{}' "
                      "{}",
                      split.variant, split.variant_args.dump(), step.variant,
                      step.variant_args.dump()));
    }
    if (!same_json(step.local_attrs, split.local_attrs)) {
      report(fmt::format("local attributes: expected {}, got {}",
                         split.local_attrs.dump(), step.local_attrs.dump()));
    }
    check_internal(step.collectives_forward, split.forward, "forward");
    check_internal(step.collectives_backward, split.backward, "backward");
  }

  // Their order matters only along one axis.
  void check_internal(std::vector<plan::InternalCollective> stated,
                      std::vector<plan::InternalCollective> wanted,
                      const char* way) {
    const auto texts = [](std::vector<plan::InternalCollective>& list) {
      std::stable_sort(
          list.begin(), list.end(),
          [](const auto& a, const auto& b) { return a.axis < b.axis; });
      std::vector<std::string> out;
      out.reserve(list.size());
      for (const auto& item : list) {
        out.push_back(
            fmt::format("{}({}) {}", item.kind, item.axis, item.bytes));
      }
      return out;
    };
    const auto expected = texts(wanted);
    const auto got = texts(stated);
    if (expected == got) return;
    report(fmt::format("collectives inside the op, {}: expected [{}], got [{}]",
                       way, fmt::join(expected, ", "), fmt::join(got, ", ")));
  }

  bool find_record(std::size_t s, const ir::Op& op, const OpSplit& split) {
    if (op.record < 0 || at(op.record) >= graph_.records.size()) {
      report("the op has no profile record");
      return false;
    }
    auto& known = records_[op.record];
    if (known == nullptr) {
      auto record =
          cost::record_from_json(graph_.records[at(op.record)], "record");
      if (!record) {
        report(record.error().message);
        return false;
      }
      known = std::make_shared<const cost::Record>(std::move(*record));
    }
    ProgramStep& followed = out_.steps[s];
    followed.owner = known;
    followed.record = known->of_variant(split.variant);
    if (followed.record == nullptr) {
      report(fmt::format("no profile record of variant '{}'", split.variant));
      return false;
    }
    if (split.splits() && !followed.record->scalable) {
      report("the op is split, but its profile is known at full size only");
    }
    followed.record = &followed.record->at(split.local_factors);
    const auto fits = cost::check_fits(*followed.record, op.operands.size(),
                                       op.results.size(), split.local_factors,
                                       "the profile record");
    if (!fits) {
      report(fits.error().message);
      return false;
    }
    return true;
  }

  bool add_results(std::size_t s, const ir::Op& op, const OpSplit& split) {
    for (std::size_t r = 0; r < op.results.size(); ++r) {
      const std::string& name = plan_.steps[s].out[r];
      if (name != graph_.value(op.results[r]).name) {
        report(fmt::format("result {} is to be named '{}', got '{}'", r,
                           graph_.value(op.results[r]).name, name));
      }
      if (!add_buffer(name, op.results[r], split.results[r],
                      static_cast<std::int32_t>(s))) {
        return false;
      }
      out_.steps[s].out.push_back(
          static_cast<std::int32_t>(out_.buffers.size() - 1));
    }
    return true;
  }

  // ---- ends ----------------------------------------------------------------

  bool all_ops_ran() {
    where_ = "steps";
    bool all = true;
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      if (runs_[i] > 0) continue;
      report(fmt::format("op '{}' is never run", graph_.ops[i].key));
      all = false;
    }
    return all;
  }

  bool find_loss() {
    where_ = "loss";
    const auto found = out_.buffer_of.find(plan_.loss);
    if (found == out_.buffer_of.end()) {
      report(fmt::format("buffer '{}' is never made", plan_.loss));
      return false;
    }
    out_.loss = found->second;
    const Buffer& loss = out_.buffer(out_.loss);
    if (loss.value != graph_.loss) {
      report(fmt::format("expected '{}', got '{}'",
                         graph_.value(graph_.loss).name,
                         graph_.value(loss.value).name));
    }
    if (!sharding::is_replicated(loss.side.forward) ||
        !sharding::is_replicated(loss.side.gradient)) {
      report(fmt::format("must be whole on every rank, got {} with gradient {}",
                         text(loss.side.forward), text(loss.side.gradient)));
    }
    return true;
  }

  const ir::Graph& graph_;
  const plan::Plan& plan_;
  Program& out_;
  Findings& findings_;
  std::string where_ = "plan";
  std::map<std::string, ValueId> values_;
  std::map<std::string, std::size_t> ops_;
  std::vector<std::int32_t> runs_;  // per op
  std::map<std::int32_t, std::shared_ptr<const cost::Record>> records_;
};

// From the loss backwards: a step's backward runs when a result has a
// gradient; an op gives one to the operands its record names.
void mark_gradients(Program& program) {
  program.buffers[at(program.loss)].has_gradient = true;
  for (std::size_t s = program.steps.size(); s-- > 0;) {
    if (!program.has_backward(s)) continue;
    const ProgramStep& step = program.steps[s];
    for (std::size_t k = 0; k < step.in.size(); ++k) {
      const bool gives = step.op == nullptr || program.gradient_of(s, k).kind !=
                                                   cost::Handle::Kind::kNone;
      if (gives && program.value_of(step.in[k]).requires_grad) {
        program.buffers[at(step.in[k])].has_gradient = true;
      }
    }
  }
}

// A recompute stops behind the last step that keeps a tensor for backward.
void mark_recomputes(Program& program) {
  for (const plan::Region& region : program.plan->regions) {
    if (!region.recompute) continue;
    std::int32_t last = -1;
    for (std::size_t s = 0; s < program.steps.size(); ++s) {
      const ProgramStep& step = program.steps[s];
      if (step.step->region == region.id && step.op != nullptr &&
          !step.record->saved.empty()) {
        last = static_cast<std::int32_t>(s);
      }
    }
    program.last_again[region.id] = last;
  }
}

}  // namespace

bool Program::has_backward(std::size_t step) const {
  return std::any_of(steps[step].out.begin(), steps[step].out.end(),
                     [&](std::int32_t b) { return buffer(b).has_gradient; });
}

bool Program::runs_again(std::size_t step) const {
  const auto found = last_again.find(steps[step].step->region);
  return found != last_again.end() &&
         static_cast<std::int32_t>(step) <= found->second;
}

cost::Handle Program::gradient_of(std::size_t step, std::size_t operand) const {
  return steps[step].record->gradients[operand];
}

std::string step_name(const plan::Plan& plan, std::size_t step) {
  const plan::Step& entry = plan.steps[step];
  return entry.kind == plan::StepKind::kConvert
             ? fmt::format("step {} (conversion of {})", step, entry.value)
             : fmt::format("step {} ({})", step, entry.op);
}

bool follow_program(const ir::Graph& graph, const plan::Plan& plan,
                    Program& program, Findings& findings) {
  Follower follower(graph, plan, program, findings);
  if (!follower.run()) return false;
  mark_gradients(program);
  mark_recomputes(program);
  return true;
}

}  // namespace shardwright::verify::internal
