// The planner's answer beside every combination of strategies, on a cluster
// whose costs can be checked by hand: one FLOP, one byte and one message take
// one unit of time each, local copies and launches nothing.
//
// Linear(1024, 4096) -> ReLU -> Linear(4096, 1024), no biases, batch 64, sum;
// mesh 2 x 2. Without a memory limit nothing is recomputed and each parameter
// is stored where that is cheapest for its reader, so a plan is one strategy
// for each op. The sum is written anew here: no node, edge or passage is
// involved.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "shardwright/mesh/cluster.h"
#include "shardwright/plan/plan_testing.h"
#include "shardwright/planner/make_plan.h"
#include "shardwright/planner/model.h"
#include "shardwright/sharding/converter.h"

namespace shardwright::planner {
namespace {

using plan::stored_graph;
using sharding::Port;

mesh::DeviceMesh unit_mesh() {
  const auto cluster = mesh::parse_cluster("4 unit").value();
  return mesh::mesh_of(cluster, {2, 2}, {}).value();
}

class BruteForce {
 public:
  explicit BruteForce(const Model& model)
      : model_(model), graph_(*model.graph), converter_(model.mesh) {
    for (const std::vector<Reader>& readers : model.readers) {
      EXPECT_LE(readers.size(), 1U) << "the sum below expects single readers";
    }
  }

  // The least cost over all combinations, and how many there were.
  std::int64_t least() {
    std::vector<std::size_t> pick(graph_.ops.size(), 0);
    std::int64_t best = std::numeric_limits<std::int64_t>::max();
    do {
      best = std::min(best, cost(pick));
      ++count;
    } while (advance(pick));
    return best;
  }

  std::int64_t count = 0;

 private:
  [[nodiscard]] const OpClass& class_at(std::size_t op) const {
    return model_.class_of(OpId(op));
  }
  [[nodiscard]] const strategy::Strategy& strategy_at(std::size_t op,
                                                      std::size_t pick) const {
    const OpClass& op_class = class_at(op);
    return op_class.set
        .strategies[static_cast<std::size_t>(op_class.priced[pick].index)];
  }

  bool advance(std::vector<std::size_t>& pick) const {
    for (std::size_t op = pick.size(); op-- > 0;) {
      if (++pick[op] < class_at(op).priced.size()) return true;
      pick[op] = 0;
    }
    return false;
  }

  std::int64_t conversion(ValueId id, const Port& from, const Port& to) {
    const auto [entry, fresh] = known_.try_emplace({id.index(), from, to}, 0);
    if (!fresh) return entry->second;
    const ir::Value& value = graph_.value(id);
    const std::size_t rank = value.shape.size();
    const auto time = [&](const sharding::ShardingSpec& a,
                          const sharding::ShardingSpec& b) {
      return model_.unit.count(
          converter_.find(a, b, value.shape, ir::size_of(value.dtype))->time);
    };
    entry->second = time(forward_spec(from, rank), forward_spec(to, rank));
    if (value.requires_grad) {
      entry->second += time(gradient_spec(to, rank), gradient_spec(from, rank));
    }
    return entry->second;
  }

  // Stored whole or split along either dim, on each axis.
  std::int64_t parameter(ValueId id, const Port& compute) {
    const std::vector<sharding::Symbol> symbols = {
        sharding::kR, sharding::shard(0), sharding::shard(1)};
    std::int64_t best = std::numeric_limits<std::int64_t>::max();
    for (const auto& a : symbols) {
      for (const auto& b : symbols) {
        best = std::min(best, conversion(id, {a, b}, compute));
      }
    }
    return best;
  }

  std::int64_t cost(const std::vector<std::size_t>& pick) {
    std::int64_t total = 0;
    for (std::size_t op = 0; op < pick.size(); ++op) {
      const PricedStrategy& priced = class_at(op).priced[pick[op]];
      total += priced.forward_cost + priced.backward_cost;
      const strategy::Strategy& strategy = strategy_at(op, pick[op]);
      for (std::size_t k = 0; k < strategy.operands.size(); ++k) {
        const ValueId id = graph_.ops[op].operands[k];
        const ir::Value& value = graph_.value(id);
        if (value.kind == ir::ValueKind::kParameter) {
          total += parameter(id, strategy.operands[k]);
          continue;
        }
        const Port from = value.producer.valid()
                              ? strategy_at(value.producer.index(),
                                            pick[value.producer.index()])
                                    .results[0]
                              : Port(2, sharding::kR);
        total += conversion(id, from, strategy.operands[k]);
      }
    }
    const std::size_t last = graph_.value(graph_.loss).producer.index();
    return total + conversion(graph_.loss,
                              strategy_at(last, pick[last]).results[0],
                              Port(2, sharding::kR));
  }

  const Model& model_;
  const ir::Graph& graph_;
  sharding::Converter converter_;
  std::map<std::tuple<std::size_t, Port, Port>, std::int64_t> known_;
};

TEST(BruteForceTest, NoCombinationOfStrategiesIsCheaperThanThePlan) {
  const ir::Graph graph = stored_graph("megatron_graph");
  const mesh::DeviceMesh mesh = unit_mesh();
  PlanOptions options;
  options.gap = 0;
  const Model model = make_model(graph, mesh, options).value();
  EXPECT_GT(model.unit.picoseconds, 1);  // 10^9 s are too many picoseconds
  const plan::Plan plan = make_plan(graph, {mesh}, "4 unit", options).value();
  BruteForce all(model);
  const std::int64_t least = all.least();
  EXPECT_GT(all.count, 10000);
  EXPECT_EQ(plan.objective.cost_ps, least);
  EXPECT_EQ(plan.objective.bound_ps, least);
  EXPECT_EQ(plan.objective.unit.picoseconds, model.unit.picoseconds);
  // Column, then row parallel: five products of which each rank does a quarter.
  EXPECT_NEAR(plan.predicted.time_s, 671.089e6, 0.001e6);
}

}  // namespace
}  // namespace shardwright::planner
