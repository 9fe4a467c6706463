// One step of a recurrent cell: input [batch, in] and state [batch, hidden]
// give the next state. The batch is free. The hidden dim is whole: the gates
// lie stacked in dim 0 of the weights and meet again in every element of the
// state (and the ops check that weights and state agree on it). The inner dims
// end inside a nonlinearity: they are not summed over ranks.
#include "shardwright/rules/builder.h"
#include "shardwright/rules/registry.h"

namespace shardwright::rules {
namespace {

std::optional<Rule> cell(const OpView& op) {
  if (op.operand(0).shape.size() != 2) return std::nullopt;
  RuleBuilder rule(op, op.base_name());
  const std::int32_t batch = rule.free_dim(0, 0, 0, "batch");
  for (const char* state : {"hx", "hx[0]", "hx[1]"}) {
    rule.operand(state, 0, batch);
  }
  return rule.build();
}

}  // namespace

void add_cell_rules(Registry& registry) {
  registry.add({"gru_cell", "lstm_cell", "rnn_relu_cell", "rnn_tanh_cell"},
               cell);
}

}  // namespace shardwright::rules
