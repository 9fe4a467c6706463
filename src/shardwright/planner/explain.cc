#include "shardwright/planner/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "shardwright/planner/alternatives.h"
#include "shardwright/planner/explain_program.h"
#include "shardwright/planner/options.h"
#include "shardwright/planner/plan_case.h"

namespace shardwright::planner {
namespace {

// A module may hold hundreds of ops, and each of their strategies is a solve.
constexpr std::size_t kMostExplained = 8;
// Changes elsewhere that one alternative names.
constexpr std::size_t kMostChanges = 4;

PlanOptions options_of(const plan::Plan& plan) {
  PlanOptions options;
  options.optimizer = plan.optimizer;
  options.memory_limit_bytes = plan.memory_limit_bytes;
  return options;
}

bool matches(const ir::Op& op, const std::string& query) {
  return op.key == query || op.module == query ||
         op.module.starts_with(query + ".") || glob_match(query, op.key) ||
         glob_match(query, op.module);
}

std::map<std::string, const plan::Step*> steps_by_op(const plan::Plan& plan) {
  std::map<std::string, const plan::Step*> out;
  for (const plan::Step& step : plan.steps) {
    if (step.kind == plan::StepKind::kOp) out[step.op] = &step;
  }
  return out;
}

// Explains one op by solving again under each of its strategies.
class OpExplainer {
 public:
  OpExplainer(const PlanCase& input, const Model& model,
              const PlanningProblem& problem)
      : input_(input),
        model_(model),
        problem_(problem),
        steps_(steps_by_op(input.plan)) {}

  std::string explain(OpId id) const {
    const ir::Op& op = input_.graph.op(id);
    const plan::Step& step = *steps_.at(op.key);
    std::string out = fmt::format(
        "{}  {}{}\n  {}\n", op.key, op.name,
        op.source.empty() ? "" : "  (" + op.source + ")", shapes(op));
    out += fmt::format("  chosen: {}, step time {}\n", step.strategy,
                       human(input_.plan.objective.time()));
    solver::SolveOptions options;
    std::vector<Alternative> list =
        alternatives_of(model_, problem_, id, options);
    std::stable_sort(list.begin(), list.end(),
                     [](const Alternative& a, const Alternative& b) {
                       return a.cost < b.cost;
                     });
    out += fmt::format("  {} strategies; best plan with each, all else free:\n",
                       list.size());
    for (const Alternative& alternative : list) {
      out += line(id, step, alternative);
    }
    return out;
  }

 private:
  std::string shapes(const ir::Op& op) const {
    const auto list = [&](const std::vector<ValueId>& ids) {
      std::vector<std::string> texts;
      for (const ValueId id : ids) {
        const ir::Value& value = input_.graph.value(id);
        texts.push_back(fmt::format("{} [{}]", to_string(value.dtype),
                                    fmt::join(value.shape, ", ")));
      }
      return fmt::format("{}", fmt::join(texts, ", "));
    };
    return list(op.operands) + " -> " + list(op.results);
  }

  std::string line(OpId id, const plan::Step& step,
                   const Alternative& alternative) const {
    const bool chosen = alternative.strategy->text == step.strategy;
    std::string out = fmt::format("  {} {:<28} ", chosen ? "*" : " ",
                                  alternative.strategy->text);
    if (alternative.strategies.empty()) {
      return out + refusal(alternative) + "\n";
    }
    const std::int64_t base = input_.plan.objective.cost_ps;
    const double more =
        base > 0 ? 100.0 * static_cast<double>(alternative.cost - base) /
                       static_cast<double>(base)
                 : 0.0;
    out += fmt::format("{:>12} {:>+9.2f} %  op {:>10} + {:>10}  {}",
                       human(model_.unit.time(alternative.cost)), more,
                       human(alternative.priced->forward),
                       human(alternative.priced->backward),
                       layouts(id, *alternative.strategy));
    if (alternative.status != solver::Status::kOptimal) {
      out += "  (not proven best)";
    }
    return out + "\n" + (chosen ? "" : changes(id, alternative));
  }

  static std::string refusal(const Alternative& alternative) {
    if (alternative.status != solver::Status::kInfeasible) {
      return "no plan found in time";
    }
    if (alternative.smallest_limit >= solver::kInfinite) {
      return "fits no neighbour";
    }
    return fmt::format("over the memory limit: needs {}",
                       human(Bytes(alternative.smallest_limit)));
  }

  std::string layouts(OpId id, const strategy::Strategy& strategy) const {
    const ir::Op& op = input_.graph.op(id);
    const auto list = [&](const std::vector<ValueId>& ids,
                          const std::vector<sharding::Port>& ports) {
      std::vector<std::string> texts;
      for (std::size_t i = 0; i < ids.size(); ++i) {
        const std::size_t rank = input_.graph.value(ids[i]).shape.size();
        texts.push_back(sharding::to_string(
            sharding::forward_spec(ports[i], rank), model_.mesh));
      }
      return fmt::format("{}", fmt::join(texts, " "));
    };
    return list(op.operands, strategy.operands) + " -> " +
           list(op.results, strategy.results);
  }

  // Ops that would run otherwise than in the plan.
  std::string changes(OpId id, const Alternative& alternative) const {
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < alternative.strategies.size(); ++i) {
      const plan::Step& step = *steps_.at(input_.graph.ops[i].key);
      if (i == id.index() || step.strategy == alternative.strategies[i]) {
        continue;
      }
      texts.push_back(
          fmt::format("{}: {}", step.op, alternative.strategies[i]));
    }
    if (texts.empty()) return "";
    const std::size_t shown = std::min(texts.size(), kMostChanges);
    std::string out = "      then ";
    for (std::size_t i = 0; i < shown; ++i) {
      out += (i == 0 ? "" : "; ") + texts[i];
    }
    if (shown < texts.size()) {
      out += fmt::format("; and {} more ops", texts.size() - shown);
    }
    return out + "\n";
  }

  const PlanCase& input_;
  const Model& model_;
  const PlanningProblem& problem_;
  std::map<std::string, const plan::Step*> steps_;
};

}  // namespace

Result<std::string> explain_text(const std::string& graph_json,
                                 const std::string& plan_json,
                                 const std::string& query) {
  SW_ASSIGN_OR_RETURN(const PlanCase input,
                      read_plan_case(graph_json, plan_json));
  SW_ASSIGN_OR_RETURN(
      const Model model,
      make_model(input.graph, input.plan.mesh, options_of(input.plan)));
  if (query.empty()) return program_text(model, input.plan);
  std::vector<OpId> ops;
  for (std::size_t i = 0; i < input.graph.ops.size(); ++i) {
    if (matches(input.graph.ops[i], query)) ops.emplace_back(i);
  }
  if (ops.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("[planner] nothing in the model is called "
                                  "'{}'. Try: an op key or a module path of "
                                  "the overview, or a glob such as '*mlp*'.",
                                  query));
  }
  SW_ASSIGN_OR_RETURN(const PlanningProblem problem, make_problem(model));
  SW_RETURN_IF_ERROR(solver::validate(problem.choice));
  const OpExplainer explainer(input, model, problem);
  std::string out;
  for (std::size_t i = 0; i < std::min(ops.size(), kMostExplained); ++i) {
    out += (i == 0 ? "" : "\n") + explainer.explain(ops[i]);
  }
  if (ops.size() > kMostExplained) {
    out += fmt::format("\n{} more ops match; name one of them:\n",
                       ops.size() - kMostExplained);
    for (std::size_t i = kMostExplained; i < ops.size(); ++i) {
      out += fmt::format("  {}\n", input.graph.op(ops[i]).key);
    }
  }
  return out;
}

}  // namespace shardwright::planner
