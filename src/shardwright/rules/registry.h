// Registry: from an ATen op's base name to the function that writes its rule.
//
// Each file of ops/ adds one family. Overloads share a function, which looks
// at the operands and attributes that are there.
#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "shardwright/rules/op_view.h"
#include "shardwright/rules/rule.h"

namespace shardwright::rules {

using RuleFunction = std::optional<Rule> (*)(const OpView&);

class Registry {
 public:
  // A name may be added once.
  void add(std::initializer_list<std::string_view> names,
           RuleFunction function);
  [[nodiscard]] RuleFunction find(std::string_view name) const;
  [[nodiscard]] const std::map<std::string, RuleFunction, std::less<>>& all()
      const {
    return functions_;
  }

 private:
  std::map<std::string, RuleFunction, std::less<>> functions_;
};

// All families, built once.
const Registry& registry();

void add_attention_rules(Registry& registry);
void add_cell_rules(Registry& registry);
void add_concat_rules(Registry& registry);
void add_conv_rules(Registry& registry);
void add_embedding_rules(Registry& registry);
void add_factory_rules(Registry& registry);
void add_index_rules(Registry& registry);
void add_loss_rules(Registry& registry);
void add_matmul_rules(Registry& registry);
void add_norm_rules(Registry& registry);
void add_pointwise_rules(Registry& registry);
void add_reduce_rules(Registry& registry);
void add_shape_rules(Registry& registry);
void add_view_rules(Registry& registry);
void add_whole_dim_rules(Registry& registry);

}  // namespace shardwright::rules
