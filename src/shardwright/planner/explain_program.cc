#include "shardwright/planner/explain_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "shardwright/sim/replay.h"

namespace shardwright::planner {
namespace {

// Highest moments of the memory timeline that are listed.
constexpr std::size_t kMostMoments = 5;

struct Row {
  std::string name, how, layouts, forward, backward, collectives;
};

template <typename List>
std::string collectives_text(const List& list) {
  std::vector<std::string> texts;
  texts.reserve(list.size());
  for (const auto& item : list) {
    texts.push_back(fmt::format("{}({})", item.kind, item.axis));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

template <typename List>
std::string both_ways(const List& forward, const List& backward) {
  std::string out = collectives_text(forward);
  if (backward.empty()) return out;
  if (!out.empty()) out += "; ";
  return out + "backward " + collectives_text(backward);
}

class ProgramTable {
 public:
  ProgramTable(const Model& model, const plan::Plan& plan)
      : model_(model), graph_(*model.graph), plan_(plan) {
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      ops_[graph_.ops[i].key] = OpId(i);
    }
    for (std::size_t i = 0; i < graph_.values.size(); ++i) {
      values_[graph_.values[i].name] = ValueId(i);
    }
  }

  Result<std::string> text() const {
    std::vector<Row> rows = {
        {"step", "strategy", "layouts", "forward", "backward", "collectives"}};
    for (const plan::Step& step : plan_.steps) {
      SW_ASSIGN_OR_RETURN(Row row, step.kind == plan::StepKind::kOp
                                       ? op_row(step)
                                       : conversion_row(step));
      rows.push_back(std::move(row));
    }
    return aligned(rows);
  }

 private:
  static tl::unexpected<Error> unknown(std::string what) {
    return make_error(ErrorCode::kInvalidPlan,
                      fmt::format("[planner] {}. Try: plan again.", what));
  }

  Result<Row> op_row(const plan::Step& step) const {
    const auto op = ops_.find(step.op);
    if (op == ops_.end()) {
      return unknown(fmt::format("the graph has no op '{}'", step.op));
    }
    const OpClass& op_class = model_.class_of(op->second);
    const auto found = std::find_if(
        op_class.priced.begin(), op_class.priced.end(),
        [&](const PricedStrategy& priced) {
          return op_class.set.strategies[static_cast<std::size_t>(priced.index)]
                     .text == step.strategy;
        });
    if (found == op_class.priced.end()) {
      return unknown(
          fmt::format("op '{}' has no strategy '{}'", step.op, step.strategy));
    }
    return Row{step.op,
               step.strategy,
               fmt::format("{} -> {}", fmt::join(step.in_specs, " "),
                           fmt::join(step.out_specs, " ")),
               human(found->forward),
               human(found->backward),
               both_ways(step.collectives_forward, step.collectives_backward)};
  }

  Result<Row> conversion_row(const plan::Step& step) const {
    const auto id = values_.find(step.value);
    if (id == values_.end()) {
      return unknown(fmt::format("the graph has no value '{}'", step.value));
    }
    const ir::Value& value = graph_.value(id->second);
    SW_ASSIGN_OR_RETURN(const Seconds forward,
                        time_of(value, step.from, step.to));
    Seconds backward(0);
    if (value.requires_grad) {
      SW_ASSIGN_OR_RETURN(backward,
                          time_of(value, step.to_grad, step.from_grad));
    }
    return Row{"  " + step.value,
               step.regather ? "convert, gathered again" : "convert",
               fmt::format("{} -> {}", step.from, step.to),
               human(forward),
               human(backward),
               both_ways(step.forward, step.backward)};
  }

  Result<Seconds> time_of(const ir::Value& value, const std::string& from,
                          const std::string& to) const {
    SW_ASSIGN_OR_RETURN(const sharding::ShardingSpec source,
                        sharding::parse_spec(from, model_.mesh));
    SW_ASSIGN_OR_RETURN(const sharding::ShardingSpec target,
                        sharding::parse_spec(to, model_.mesh));
    const sharding::Conversion* conversion = model_.converter->find(
        source, target, value.shape, ir::size_of(value.dtype));
    if (conversion == nullptr) {
      return unknown(fmt::format("'{}' cannot be converted from {} to {}",
                                 value.name, from, to));
    }
    return conversion->time;
  }

  static std::string aligned(const std::vector<Row>& rows) {
    std::size_t name = 0;
    std::size_t how = 0;
    std::size_t layouts = 0;
    for (const Row& row : rows) {
      name = std::max(name, row.name.size());
      how = std::max(how, row.how.size());
      layouts = std::max(layouts, row.layouts.size());
    }
    std::string out;
    for (const Row& row : rows) {
      std::string line =
          fmt::format("{:<{}}  {:<{}}  {:<{}}  {:>10}  {:>10}  {}", row.name,
                      name, row.how, how, row.layouts, layouts, row.forward,
                      row.backward, row.collectives);
      line.erase(line.find_last_not_of(' ') + 1);
      out += line + "\n";
    }
    return out;
  }

  const Model& model_;
  const ir::Graph& graph_;
  const plan::Plan& plan_;
  std::map<std::string, OpId> ops_;
  std::map<std::string, ValueId> values_;
};

std::string heading(const plan::Plan& plan) {
  const plan::Objective& objective = plan.objective;
  return fmt::format(
      "plan of {} on {}, mesh {}, {}\n"
      "step time {} ({}, gap {:.3f} %), peak {} a device\n\n",
      plan.graph_name, plan.cluster, mesh::to_string(plan.mesh), plan.optimizer,
      human(objective.time()), objective.status, 100.0 * objective.gap(),
      human(Bytes(plan.predicted.peak_bytes)));
}

std::string issued_text(const plan::Plan& plan) {
  std::string out = "\ncollectives of one step, rank 0\n";
  if (plan.collectives.empty()) out += "  none\n";
  for (const plan::CollectiveCount& item : plan.collectives) {
    out += fmt::format("  {:>4} x {:<14} over {:<4} of {}\n", item.count,
                       item.kind, item.axis, human(Bytes(item.bytes)));
  }
  return out;
}

std::string memory_text(const sim::MemoryTimeline& timeline) {
  const std::int64_t state = timeline.parameters_bytes +
                             timeline.optimizer_bytes + timeline.inputs_bytes;
  std::string out =
      fmt::format("\nmemory: {} at {}\n", human(Bytes(timeline.peak_bytes)),
                  timeline.peak_at);
  for (const auto& [name, bytes] :
       {std::pair{"parameters", timeline.parameters_bytes},
        std::pair{"optimizer state", timeline.optimizer_bytes},
        std::pair{"inputs and buffers", timeline.inputs_bytes},
        std::pair{"activations, gradients, temporaries",
                  timeline.peak_bytes - state}}) {
    out += fmt::format("  {:<36} {:>12}\n", name, human(Bytes(bytes)));
  }
  std::vector<sim::MemoryPoint> points = timeline.points;
  std::stable_sort(points.begin(), points.end(),
                   [](const sim::MemoryPoint& a, const sim::MemoryPoint& b) {
                     return a.peak > b.peak;
                   });
  points.resize(std::min(points.size(), kMostMoments));
  out += "highest moments\n";
  for (const sim::MemoryPoint& point : points) {
    out += fmt::format("  {:>12}  {}\n", human(Bytes(point.peak)), point.at);
  }
  return out;
}

}  // namespace

Result<std::string> program_text(const Model& model, const plan::Plan& plan) {
  SW_ASSIGN_OR_RETURN(const std::string table,
                      ProgramTable(model, plan).text());
  SW_ASSIGN_OR_RETURN(const sim::MemoryTimeline timeline,
                      sim::replay(*model.graph, plan));
  return heading(plan) + table + issued_text(plan) + memory_text(timeline);
}

}  // namespace shardwright::planner
