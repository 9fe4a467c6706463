// What one mode of one mesh axis means for the tensors of an op.
#pragma once

#include <cstdint>
#include <vector>

#include "shardwright/ir/graph.h"
#include "shardwright/rules/rule.h"
#include "shardwright/sharding/port.h"

namespace shardwright::strategy {

struct AxisMode {
  std::int32_t mode = -1;  // factor, or kWhole, kPartial, kDelayed
  std::vector<sharding::Symbol> operands;
  std::vector<sharding::Symbol> results;
};

// The modes an axis may take, kWhole first, then the factors in order, then
// partial and delayed if the rule allows them and they differ from kWhole.
std::vector<AxisMode> axis_modes(const ir::Graph& graph, const ir::Op& op,
                                 const rules::Rule& rule);

}  // namespace shardwright::strategy
