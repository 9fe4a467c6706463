// Model: graph, mesh and everything that is derived once before the choice
// problem is written: op classes with their strategies and costs, readers,
// alias closures, the timeline.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shardwright/base/time_unit.h"
#include "shardwright/cost/footprint.h"
#include "shardwright/cost/optimizer.h"
#include "shardwright/cost/record.h"
#include "shardwright/ir/graph.h"
#include "shardwright/mesh/device_mesh.h"
#include "shardwright/planner/options.h"
#include "shardwright/planner/regions.h"
#include "shardwright/planner/state.h"
#include "shardwright/planner/timeline.h"
#include "shardwright/sharding/converter.h"
#include "shardwright/sharding/port.h"
#include "shardwright/strategy/strategy.h"

namespace shardwright::planner {

// A strategy with what it costs at local sizes.
struct PricedStrategy {
  std::int32_t index = 0;  // into OpClass::set.strategies
  cost::Footprint footprint;
  Seconds forward, backward;  // kernels and internal collectives
  std::int64_t forward_cost = 0, backward_cost = 0;  // in Model::unit
};

// Ops that are equal in all that decides strategies and costs share a class.
struct OpClass {
  strategy::StrategySet set;
  std::vector<PricedStrategy> priced;
  std::shared_ptr<const cost::Record> record;
  // From the record at full size: operand whose storage result r shares, -1.
  std::vector<std::int32_t> result_alias;
  // True when some strategy does.
  bool saves_anything = false;
  std::vector<bool> may_save_operand;
  std::vector<bool> may_save_result;
  // Some strategy sums over ranks: a matmul, a convolution, a reduction.
  bool contracts = false;
  // Ports at which some strategy takes each operand, sorted.
  std::vector<std::vector<sharding::Port>> operand_ports;
};

// A reader of a value: op and operand position(s).
struct Reader {
  OpId op;
  std::vector<std::int32_t> operands;  // positions that read the value
};

struct PriceCache;  // passes/price.h

struct Model {
  const ir::Graph* graph = nullptr;
  mesh::DeviceMesh mesh;
  PlanOptions options;
  cost::Optimizer optimizer;
  TimeUnit unit;  // of all costs
  std::vector<RegionRange> regions;
  std::vector<bool> recomputable;  // per region
  ChangedState state;
  Timeline timeline;
  std::vector<OpClass> classes;
  std::vector<std::int32_t> class_of_op;
  std::vector<std::vector<Reader>> readers;  // per value, in op order
  std::vector<std::string> warnings;
  // Per value: of little weight beside all others.
  std::vector<bool> is_small;
  // Per value: no gradient, small, and read in many regions.
  std::vector<bool> stays_whole;
  // Values of equal shape, dtype, layouts and need of a gradient share a price
  // class.
  std::vector<std::int32_t> price_class;
  // Caches; logically part of the input.
  std::shared_ptr<sharding::Converter> converter;
  std::shared_ptr<PriceCache> prices;

  [[nodiscard]] const OpClass& class_of(OpId op) const {
    return classes[static_cast<std::size_t>(class_of_op[op.index()])];
  }
  // How the value, or its gradient, lies in memory; as named for sources.
  [[nodiscard]] cost::MemoryLayout layout_of(const ir::Value& value) const;
  [[nodiscard]] cost::MemoryLayout gradient_layout_of(
      const ir::Value& value) const;
  // Region of an op if it may be recomputed, else -1.
  [[nodiscard]] std::int32_t recomputable_region(OpId op) const;
};

// Errors: kInvalidGraph (an op without a profile record), kInvalidArgument
// (optimizer, pins that match nothing).
Result<Model> make_model(const ir::Graph& graph, const mesh::DeviceMesh& mesh,
                         const PlanOptions& options);

}  // namespace shardwright::planner
