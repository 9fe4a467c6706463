#include "shardwright/strategy/axis_mode.h"

#include <algorithm>
#include <optional>

#include "shardwright/strategy/strategy.h"

namespace shardwright::strategy {
namespace {

using rules::DimFactor;
using rules::Rule;
using sharding::Symbol;

std::optional<std::size_t> dim_of(const std::vector<DimFactor>& dims,
                                  std::int32_t factor) {
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (dims[d].factor == factor) return d;
  }
  return std::nullopt;
}

// The derivation for one op, mode by mode.
class Derivation {
 public:
  Derivation(const ir::Graph& graph, const ir::Op& op, const Rule& rule)
      : graph_(graph), op_(op), rule_(rule) {}

  [[nodiscard]] AxisMode whole() const {
    return {kWhole, std::vector<Symbol>(op_.operands.size(), sharding::kR),
            std::vector<Symbol>(op_.results.size(), sharding::kR)};
  }

  [[nodiscard]] AxisMode factor(std::int32_t factor) const {
    AxisMode out = whole();
    out.mode = factor;
    for (std::size_t i = 0; i < op_.operands.size(); ++i) {
      out.operands[i] = operand_symbol(i, factor);
    }
    const rules::Factor& split = at(factor);
    for (std::size_t i = 0; i < op_.results.size(); ++i) {
      if (const auto dim = dim_of(rule_.results[i], factor)) {
        out.results[i] = sharding::shard(*dim);
      } else if (split.contracted && !rule_.is_side_result(i)) {
        out.results[i] = sharding::kP;
      }
    }
    return out;
  }

  // One operand of every term is Partial; the product with the rest makes
  // their gradients partial too.
  [[nodiscard]] AxisMode partial() const {
    AxisMode out = whole();
    out.mode = kPartial;
    for (const auto& term : rule_.terms) {
      for (std::size_t i = 0; i < term.size(); ++i) {
        const auto position = static_cast<std::size_t>(term[i]);
        out.operands[position] =
            i == 0 ? sharding::kP : whole_with_sum(position);
      }
    }
    std::fill(out.results.begin(), out.results.end(), sharding::kP);
    return out;
  }

  [[nodiscard]] AxisMode delayed() const {
    AxisMode out = whole();
    out.mode = kDelayed;
    for (std::size_t i = 0; i < op_.operands.size(); ++i) {
      out.operands[i] = whole_with_sum(i);
    }
    for (std::size_t i = 0; i < op_.results.size(); ++i) {
      const bool grad = graph_.value(op_.results[i]).requires_grad;
      if (grad) out.results[i] = sharding::kD;
    }
    return out;
  }

 private:
  [[nodiscard]] const rules::Factor& at(std::int32_t factor) const {
    return rule_.factors[static_cast<std::size_t>(factor)];
  }

  // Replicated, its gradient a partial sum if it has one.
  [[nodiscard]] Symbol whole_with_sum(std::size_t operand) const {
    return graph_.value(op_.operands[operand]).requires_grad ? sharding::kD
                                                             : sharding::kR;
  }

  // The term that holds the operand; nullptr for one in no term.
  [[nodiscard]] const std::vector<std::int32_t>* term_of(
      std::size_t operand) const {
    for (const auto& term : rule_.terms) {
      const auto found = std::find(term.begin(), term.end(),
                                   static_cast<std::int32_t>(operand));
      if (found != term.end()) return &term;
    }
    return nullptr;
  }

  [[nodiscard]] bool term_has(const std::vector<std::int32_t>& term,
                              std::int32_t factor) const {
    return std::any_of(term.begin(), term.end(), [&](std::int32_t position) {
      return dim_of(rule_.operands[static_cast<std::size_t>(position)], factor)
          .has_value();
    });
  }

  // A contracted factor sums over ranks: a term without it must come from one
  // rank only, which its first operand decides, with or without gradient.
  [[nodiscard]] Symbol operand_symbol(std::size_t operand,
                                      std::int32_t factor) const {
    if (const auto dim = dim_of(rule_.operands[operand], factor)) {
      return sharding::shard(*dim);
    }
    const std::vector<std::int32_t>* term = term_of(operand);
    const bool addend =
        at(factor).contracted && term != nullptr && !term_has(*term, factor);
    if (addend && term->front() == static_cast<std::int32_t>(operand)) {
      return sharding::kP;
    }
    return whole_with_sum(operand);
  }

  const ir::Graph& graph_;
  const ir::Op& op_;
  const Rule& rule_;
};

bool differs(const AxisMode& a, const AxisMode& b) {
  return a.operands != b.operands || a.results != b.results;
}

}  // namespace

std::vector<AxisMode> axis_modes(const ir::Graph& graph, const ir::Op& op,
                                 const rules::Rule& rule) {
  const Derivation derivation(graph, op, rule);
  std::vector<AxisMode> modes = {derivation.whole()};
  for (std::size_t f = 0; f < rule.factors.size(); ++f) {
    modes.push_back(derivation.factor(static_cast<std::int32_t>(f)));
  }
  if (rule.linear_partial) modes.push_back(derivation.partial());
  if (rule.delayed) {
    AxisMode delayed = derivation.delayed();
    if (differs(delayed, modes.front())) modes.push_back(std::move(delayed));
  }
  return modes;
}

}  // namespace shardwright::strategy
