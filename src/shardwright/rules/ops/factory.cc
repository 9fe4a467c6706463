// Tensors made from nothing: every rank makes the whole of it, at no cost
// worth a split. A reader that wants a part slices it, a local copy.
#include "shardwright/rules/builder.h"
#include "shardwright/rules/registry.h"

namespace shardwright::rules {
namespace {

std::optional<Rule> factory(const OpView& op) {
  return RuleBuilder(op, "factory").build();
}

}  // namespace

void add_factory_rules(Registry& registry) {
  registry.add(
      {"arange",         "empty",         "eye",          "full",
       "hamming_window", "hann_window",   "linspace",     "logspace",
       "new_empty",      "new_full",      "new_ones",     "new_zeros",
       "ones",           "rand",          "randint",      "randn",
       "randperm",       "scalar_tensor", "tril_indices", "triu_indices",
       "zeros"},
      factory);
}

}  // namespace shardwright::rules
