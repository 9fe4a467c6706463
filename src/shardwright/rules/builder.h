// RuleBuilder: writes a rule down, dim by dim, and refuses one that does not
// fit the op's shapes.
//
//     RuleBuilder rule(op, "mm");
//     const auto m = rule.factor("m", shape_a[0]);
//     rule.operand(0, 0, m).result(0, 0, m);
//     ...
//     return rule.build();
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shardwright/rules/op_view.h"
#include "shardwright/rules/rule.h"

namespace shardwright::rules {

class RuleBuilder {
 public:
  // All dims start without factor (whole).
  RuleBuilder(const OpView& op, std::string name);

  std::int32_t factor(std::string name, std::int64_t size);
  std::int32_t contracted(std::string name, std::int64_t size);
  Factor& at(std::int32_t factor) {
    return rule_.factors[static_cast<std::size_t>(factor)];
  }

  RuleBuilder& operand(std::int64_t position, std::int64_t dim,
                       std::int32_t factor, std::int64_t times = 1);
  // Nothing when the argument was not given.
  RuleBuilder& operand(std::string_view arg, std::int64_t dim,
                       std::int32_t factor, std::int64_t times = 1);
  RuleBuilder& result(std::int64_t position, std::int64_t dim,
                      std::int32_t factor, std::int64_t times = 1);
  // Same dim of every result.
  RuleBuilder& results(std::int64_t dim, std::int32_t factor,
                       std::int64_t times = 1);
  // A factor of this dim's size, mapped there and in result dim.
  std::int32_t free_dim(std::int64_t position, std::int64_t dim,
                        std::int64_t result_dim, std::string name = "");
  // Maps an operand onto result 0 by broadcasting: dims aligned at the back,
  // size 1 means whole. Result dims must have their factors already.
  RuleBuilder& broadcast(std::int64_t position);

  RuleBuilder& term(std::vector<std::int32_t> operands);
  // A result without gradient that no factor changes.
  RuleBuilder& side_result(std::int64_t position);
  RuleBuilder& linear();   // may run Partial -> Partial
  RuleBuilder& delayed();  // may run with delayed gradients
  RuleBuilder& attr(std::string name, std::int32_t factor,
                    std::int64_t times = 1);
  RuleBuilder& variant_arg(const char* name, Json value);

  // Drops factors of size 1 (nothing to split) and derives even_only. nullopt
  // when a dim is not factor * times or does not exist, when a result lacks a
  // factor it must have (a side result: has one), or when a contracted factor
  // has no terms.
  [[nodiscard]] std::optional<Rule> build() const;

 private:
  RuleBuilder& map(std::vector<std::vector<DimFactor>>& tensors,
                   std::int64_t position, std::int64_t dim, std::int32_t factor,
                   std::int64_t times);
  [[nodiscard]] bool fits() const;

  const OpView* op_;
  Rule rule_;
  bool broken_ = false;
};

// A rule with a factor for every dim of result 0 and all operands broadcast
// onto it: the pattern of elementwise ops.
RuleBuilder pointwise_rule(const OpView& op, std::string name);

}  // namespace shardwright::rules
