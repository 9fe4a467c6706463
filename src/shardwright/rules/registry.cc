#include "shardwright/rules/registry.h"

#include "shardwright/base/check.h"

namespace shardwright::rules {
namespace {

Registry make_registry() {
  Registry registry;
  add_attention_rules(registry);
  add_cell_rules(registry);
  add_concat_rules(registry);
  add_conv_rules(registry);
  add_embedding_rules(registry);
  add_factory_rules(registry);
  add_index_rules(registry);
  add_loss_rules(registry);
  add_matmul_rules(registry);
  add_norm_rules(registry);
  add_pointwise_rules(registry);
  add_reduce_rules(registry);
  add_shape_rules(registry);
  add_view_rules(registry);
  add_whole_dim_rules(registry);
  return registry;
}

}  // namespace

void Registry::add(std::initializer_list<std::string_view> names,
                   RuleFunction function) {
  for (const std::string_view name : names) {
    const bool added = functions_.emplace(std::string(name), function).second;
    SW_CHECK(added, "two rules for " + std::string(name));
  }
}

RuleFunction Registry::find(std::string_view name) const {
  const auto it = functions_.find(name);
  return it == functions_.end() ? nullptr : it->second;
}

const Registry& registry() {
  static const Registry kRegistry = make_registry();
  return kRegistry;
}

}  // namespace shardwright::rules
