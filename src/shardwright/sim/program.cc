#include "shardwright/sim/program.h"

#include <fmt/format.h>

#include <algorithm>

#include "shardwright/cost/collective_memory.h"
#include "shardwright/sharding/spec.h"

namespace shardwright::sim::internal {
namespace {

tl::unexpected<Error> invalid(std::string text) {
  return make_error(ErrorCode::kInvalidPlan,
                    "[sim] " + std::move(text) + ". Try: plan again.");
}

class Resolver {
 public:
  Resolver(const ir::Graph& graph, const plan::Plan& plan)
      : graph_(graph), plan_(plan) {
    for (std::size_t i = 0; i < graph.values.size(); ++i) {
      values_[graph.values[i].name] = ValueId(i);
    }
    for (std::size_t i = 0; i < graph.ops.size(); ++i) {
      ops_[graph.ops[i].key] = OpId(i);
    }
  }

  Result<Program> run() {
    SW_RETURN_IF_ERROR(add_sources());
    for (const plan::Step& step : plan_.steps) {
      SW_RETURN_IF_ERROR(add_step(step));
    }
    const auto loss = out_.buffer_of.find(plan_.loss);
    if (loss == out_.buffer_of.end()) {
      return invalid(
          fmt::format("the loss buffer '{}' is never made", plan_.loss));
    }
    out_.loss = loss->second;
    mark_gradients();
    mark_regions();
    SW_RETURN_IF_ERROR(mark_recipes());
    return std::move(out_);
  }

 private:
  Result<std::int64_t> bytes_at(const ir::Value& value,
                                const std::string& spec) {
    SW_ASSIGN_OR_RETURN(const sharding::ShardingSpec parsed,
                        sharding::parse_spec(spec, plan_.mesh));
    if (parsed.dims.size() != value.shape.size()) {
      return invalid(fmt::format("spec {} does not fit '{}' of {} dims", spec,
                                 value.name, value.shape.size()));
    }
    std::int64_t count = ir::size_of(value.dtype);
    for (const std::int64_t size :
         sharding::local_shape(value.shape, parsed, plan_.mesh, {})) {
      count *= size;
    }
    return count;
  }

  Result<std::int32_t> add_buffer(const std::string& name, ValueId value,
                                  const std::string& spec,
                                  const std::string& gradient,
                                  std::int32_t producer) {
    Buffer buffer;
    buffer.name = name;
    buffer.value = value;
    buffer.producer = producer;
    const ir::Value& entry = graph_.value(value);
    SW_ASSIGN_OR_RETURN(buffer.bytes, bytes_at(entry, spec));
    buffer.differentiable = entry.requires_grad;
    if (entry.requires_grad) {
      SW_ASSIGN_OR_RETURN(buffer.gradient_bytes, bytes_at(entry, gradient));
    }
    const auto id = static_cast<std::int32_t>(out_.buffers.size());
    if (!out_.buffer_of.emplace(name, id).second) {
      return invalid(fmt::format("buffer '{}' is made twice", name));
    }
    out_.buffers.push_back(std::move(buffer));
    return id;
  }

  Result<bool> add_sources() {
    std::map<std::string, std::string> storage;
    for (const plan::StoredParameter& parameter : plan_.parameters) {
      storage[parameter.name] = parameter.storage;
    }
    for (std::size_t i = 0; i < graph_.values.size(); ++i) {
      const ir::Value& value = graph_.values[i];
      if (value.kind == ir::ValueKind::kActivation) continue;
      std::string spec = whole(value.shape.size());
      if (value.kind == ir::ValueKind::kParameter) {
        const auto found = storage.find(value.name);
        if (found == storage.end()) {
          return invalid(
              fmt::format("parameter '{}' has no storage spec", value.name));
        }
        spec = found->second;
      }
      SW_RETURN_IF_ERROR(add_buffer(value.name, ValueId(i), spec, spec, -1));
    }
    return true;
  }

  static std::string whole(std::size_t rank) {
    return fmt::format("[{}]",
                       fmt::join(std::vector<std::string>(rank, "-"), ", "));
  }

  Result<bool> add_step(const plan::Step& step) {
    ResolvedStep resolved;
    resolved.step = &step;
    const auto index = static_cast<std::int32_t>(out_.steps.size());
    for (const std::string& name : step.in) {
      const auto found = out_.buffer_of.find(name);
      if (found == out_.buffer_of.end()) {
        return invalid(fmt::format(
            "step {} reads buffer '{}' before it is made", index, name));
      }
      resolved.in.push_back(found->second);
      out_.buffers[static_cast<std::size_t>(found->second)].last_reader = index;
    }
    if (step.kind == plan::StepKind::kConvert) {
      SW_RETURN_IF_ERROR(resolve_convert(step, index, resolved));
    } else {
      SW_RETURN_IF_ERROR(resolve_op(step, index, resolved));
    }
    out_.steps.push_back(std::move(resolved));
    return true;
  }

  Result<bool> resolve_convert(const plan::Step& step, std::int32_t index,
                               ResolvedStep& resolved) {
    const auto value = values_.find(step.value);
    if (value == values_.end()) {
      return invalid(
          fmt::format("step {} converts '{}', which the graph does "
                      "not have",
                      index, step.value));
    }
    SW_ASSIGN_OR_RETURN(const std::int32_t id,
                        add_buffer(step.out.at(0), value->second, step.to,
                                   step.to_grad, index));
    resolved.out = {id};
    const ir::Value& entry = graph_.value(value->second);
    cost::MemoryLayout forward, backward;  // sources lie as they are named
    if (entry.producer.valid()) {
      SW_ASSIGN_OR_RETURN(const auto record,
                          record_of(graph_.op(entry.producer)));
      const auto result = static_cast<std::size_t>(entry.result_index);
      if (result >= record->result_layouts.size()) {
        return make_error(ErrorCode::kInvalidGraph,
                          fmt::format("[sim] the record of op '{}' is of "
                                      "another op",
                                      graph_.op(entry.producer).key));
      }
      forward = record->result_layouts[result];
      backward = record->gradient_layouts[result];
    }
    // What lies otherwise than the collectives work is copied first; a copy of
    // a copy was brought into their order by its own conversion.
    const auto& from = out_.buffers[static_cast<std::size_t>(resolved.in[0])];
    forward.dense = (forward.dense && forward.order == step.order) ||
                    made_dense(from.producer);
    backward.dense = backward.dense && backward.order == step.grad_order;
    forward.order = step.order;
    backward.order = step.grad_order;
    SW_ASSIGN_OR_RETURN(resolved.forward,
                        memory_of(entry, step.from, step.forward, forward));
    SW_ASSIGN_OR_RETURN(resolved.backward, memory_of(entry, step.to_grad,
                                                     step.backward, backward));
    return true;
  }

  // The step is a conversion that moved something.
  [[nodiscard]] bool made_dense(std::int32_t producer) const {
    if (producer < 0) return false;
    const ResolvedStep& step = out_.steps[static_cast<std::size_t>(producer)];
    return step.op == nullptr && !step.forward.empty();
  }

  Result<std::vector<CollectiveMemory>> memory_of(
      const ir::Value& value, const std::string& from,
      const std::vector<plan::CollectiveStep>& list,
      const cost::MemoryLayout& layout) {
    std::vector<CollectiveMemory> out;
    SW_ASSIGN_OR_RETURN(sharding::ShardingSpec spec,
                        sharding::parse_spec(from, plan_.mesh));
    std::vector<std::int64_t> local =
        sharding::local_shape(value.shape, spec, plan_.mesh, {});
    for (const plan::CollectiveStep& step : list) {
      SW_ASSIGN_OR_RETURN(const mesh::CollectiveKind kind,
                          mesh::parse_collective_kind(step.kind));
      const std::int32_t axis = plan_.mesh.axis_index(step.axis);
      const auto rank = static_cast<std::int32_t>(value.shape.size());
      if (axis < 0 || step.dim >= rank || step.to_dim >= rank) {
        return invalid(
            fmt::format("a {} of '{}' names an axis or dim that is "
                        "not there",
                        step.kind, value.name));
      }
      SW_ASSIGN_OR_RETURN(spec, sharding::parse_spec(step.after, plan_.mesh));
      const std::vector<std::int64_t> next =
          sharding::local_shape(value.shape, spec, plan_.mesh, {});
      cost::CollectiveShape shape;
      shape.kind = kind;
      shape.axis_size = plan_.mesh.axes[static_cast<std::size_t>(axis)].size;
      shape.in_bytes = bytes_of(value, local);
      shape.out_bytes = bytes_of(value, next);
      if (step.dim >= 0) {
        shape.dim_outer = cost::is_outer(local, step.dim, layout.order);
      }
      if (step.to_dim >= 0) {
        shape.to_dim_outer = cost::is_outer(local, step.to_dim, layout.order);
      }
      shape.dense = layout.dense || !out.empty();
      out.push_back(
          CollectiveMemory{shape.out_bytes, cost::collective_transient(shape)});
      local = next;
    }
    return out;
  }

  static std::int64_t bytes_of(const ir::Value& value,
                               const std::vector<std::int64_t>& shape) {
    std::int64_t bytes = ir::size_of(value.dtype);
    for (const std::int64_t size : shape) bytes *= size;
    return bytes;
  }

  Result<bool> resolve_op(const plan::Step& step, std::int32_t index,
                          ResolvedStep& resolved) {
    const auto op = ops_.find(step.op);
    if (op == ops_.end()) {
      return invalid(
          fmt::format("step {} runs '{}', which the graph does not "
                      "have",
                      index, step.op));
    }
    resolved.op = &graph_.op(op->second);
    if (step.in.size() != resolved.op->operands.size() ||
        step.out.size() != resolved.op->results.size() ||
        step.out_specs.size() != step.out.size()) {
      return invalid(
          fmt::format("step {} does not fit op '{}'", index, step.op));
    }
    SW_ASSIGN_OR_RETURN(resolved.record, record_of(*resolved.op));
    const cost::Record* whole = resolved.record->of_variant(step.variant);
    if (whole == nullptr) {
      return invalid(fmt::format("op '{}' has no record of variant '{}'",
                                 step.op, step.variant));
    }
    for (const std::int64_t size : step.local_factors) {
      if (size < 0 || size > ir::kLargestValueBytes) {
        return invalid(
            fmt::format("step {} runs a factor of size {}", index, size));
      }
    }
    resolved.local = &whole->at(step.local_factors);
    SW_RETURN_IF_ERROR(cost::check_fits(
        *resolved.local, step.in.size(), step.out.size(), step.local_factors,
        fmt::format("record of op '{}'", step.op)));
    resolved.saves = !resolved.local->saved.empty();
    for (std::size_t r = 0; r < step.out.size(); ++r) {
      SW_ASSIGN_OR_RETURN(
          const std::int32_t id,
          add_buffer(step.out[r], resolved.op->results[r], step.out_specs[r],
                     without_partial(step.out_specs[r]), index));
      resolved.out.push_back(id);
    }
    return true;
  }

  // The gradient a result takes: whole where the result is partial.
  static std::string without_partial(const std::string& spec) {
    return spec.substr(0, spec.find(']') + 1);
  }

  Result<std::shared_ptr<const cost::Record>> record_of(const ir::Op& op) {
    if (op.record < 0 ||
        static_cast<std::size_t>(op.record) >= graph_.records.size()) {
      return make_error(
          ErrorCode::kInvalidGraph,
          fmt::format("[sim] op '{}' has no profile record", op.key));
    }
    auto& known = records_[op.record];
    if (known == nullptr) {
      SW_ASSIGN_OR_RETURN(
          cost::Record record,
          cost::record_from_json(
              graph_.records[static_cast<std::size_t>(op.record)],
              fmt::format("record of op '{}'", op.key)));
      SW_RETURN_IF_ERROR(cost::check_ranks(
          record, graph_, op, fmt::format("record of op '{}'", op.key)));
      known = std::make_shared<const cost::Record>(std::move(record));
    }
    return known;
  }

  // From the loss backwards: a buffer gets a gradient when it is
  // differentiable and some reader that has one gives it one.
  void mark_gradients() {
    out_.gets_gradient.assign(out_.buffers.size(), false);
    out_.gets_gradient[static_cast<std::size_t>(out_.loss)] = true;
    for (std::size_t s = out_.steps.size(); s-- > 0;) {
      const ResolvedStep& step = out_.steps[s];
      const bool runs =
          std::any_of(step.out.begin(), step.out.end(), [&](std::int32_t b) {
            return out_.gets_gradient[static_cast<std::size_t>(b)];
          });
      if (!runs) continue;
      for (std::size_t k = 0; k < step.in.size(); ++k) {
        const auto b = static_cast<std::size_t>(step.in[k]);
        const bool gives =
            step.op == nullptr ||
            step.local->gradients[k].kind != cost::Handle::Kind::kNone;
        if (gives && out_.buffers[b].differentiable) {
          out_.gets_gradient[b] = true;
        }
      }
    }
  }

  void mark_regions() {
    std::size_t count = 0;
    for (const plan::Region& region : plan_.regions) {
      count = std::max(count, static_cast<std::size_t>(region.id) + 1);
    }
    out_.recomputed.assign(count, false);
    out_.last_saver.assign(count, -1);
    for (const plan::Region& region : plan_.regions) {
      out_.recomputed[static_cast<std::size_t>(region.id)] = region.recompute;
    }
    for (std::size_t s = 0; s < out_.steps.size(); ++s) {
      const std::int32_t region = out_.steps[s].step->region;
      if (region >= 0 && out_.steps[s].saves) {
        out_.last_saver[static_cast<std::size_t>(region)] =
            static_cast<std::int32_t>(s);
      }
    }
  }

  // Follows copies that are gathered again from buffer to buffer, as the
  // generated program does.
  Result<bool> mark_recipes() {
    for (std::size_t s = 0; s < out_.steps.size(); ++s) {
      if (out_.steps[s].op == nullptr) {
        SW_RETURN_IF_ERROR(pass_on_by_conversion(s));
      } else {
        SW_RETURN_IF_ERROR(pass_on_by_op(s));
      }
    }
    return true;
  }

  Result<bool> pass_on_by_conversion(std::size_t s) {
    const ResolvedStep& step = out_.steps[s];
    const Buffer& from = out_.buffers[static_cast<std::size_t>(step.in[0])];
    Buffer& to = out_.buffers[static_cast<std::size_t>(step.out[0])];
    if (from.recipe >= 0 && step.forward.empty()) {
      to.recipe = from.recipe;
      to.views_copy = from.views_copy;
      return true;
    }
    Recipe recipe;
    if (from.recipe >= 0 && !from.views_copy) {
      recipe = out_.recipes[static_cast<std::size_t>(from.recipe)];
    } else if (!step.step->regather || step.forward.empty() ||
               in_recomputed(out_, s)) {
      return true;  // inside a recompute the second run gathers again
    } else if (from.producer >= 0) {
      return invalid(
          fmt::format("step {} is to gather '{}' again from '{}', "
                      "which is gone by then",
                      s, to.name, from.name));
    }
    recipe.conversions.push_back(static_cast<std::int32_t>(s));
    to.recipe = static_cast<std::int32_t>(out_.recipes.size());
    out_.recipes.push_back(std::move(recipe));
    return true;
  }

  Result<bool> pass_on_by_op(std::size_t s) {
    const ResolvedStep& step = out_.steps[s];
    for (const std::int32_t b : step.in) {
      const Buffer& read = out_.buffers[static_cast<std::size_t>(b)];
      if (read.recipe >= 0 && in_recomputed(out_, s)) {
        return invalid(
            fmt::format("step {} reads '{}', which is gathered "
                        "again, in a recomputed region",
                        s, read.name));
      }
    }
    for (std::size_t r = 0; r < step.out.size(); ++r) {
      const cost::Handle& handle = step.local->results[r];
      if (handle.kind != cost::Handle::Kind::kOperand) continue;
      const auto in = step.in[static_cast<std::size_t>(handle.index)];
      Buffer& result = out_.buffers[static_cast<std::size_t>(step.out[r])];
      result.recipe = out_.buffers[static_cast<std::size_t>(in)].recipe;
      result.views_copy = result.recipe >= 0;
    }
    return true;
  }

  const ir::Graph& graph_;
  const plan::Plan& plan_;
  std::map<std::string, ValueId> values_;
  std::map<std::string, OpId> ops_;
  std::map<std::int32_t, std::shared_ptr<const cost::Record>> records_;
  Program out_;
};

}  // namespace

Result<Program> resolve(const ir::Graph& graph, const plan::Plan& plan) {
  return Resolver(graph, plan).run();
}

std::vector<std::int32_t> gathered_again(const Program& program,
                                         std::size_t step) {
  const ResolvedStep& reader = program.steps[step];
  std::vector<std::int32_t> out;
  if (reader.op == nullptr) return out;
  for (const cost::Handle& handle : reader.local->saved) {
    if (handle.kind != cost::Handle::Kind::kOperand) continue;
    const auto in = reader.in[static_cast<std::size_t>(handle.index)];
    const std::int32_t recipe =
        program.buffers[static_cast<std::size_t>(in)].recipe;
    if (recipe >= 0 && std::find(out.begin(), out.end(), recipe) == out.end()) {
      out.push_back(recipe);
    }
  }
  return out;
}

bool in_recomputed(const Program& program, std::size_t step) {
  const std::int32_t region = program.steps[step].step->region;
  return region >= 0 && program.recomputed[static_cast<std::size_t>(region)];
}

bool runs_again(const Program& program, std::size_t step) {
  const std::int32_t region = program.steps[step].step->region;
  return in_recomputed(program, step) &&
         static_cast<std::int32_t>(step) <=
             program.last_saver[static_cast<std::size_t>(region)];
}

}  // namespace shardwright::sim::internal
