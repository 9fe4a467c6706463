// The choices of a value node without their memory, and its edge to the
// producer: what equal blocks of a model have in common.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "shardwright/planner/passes/edge_tables.h"
#include "shardwright/planner/passes/passage.h"
#include "shardwright/planner/passes/value_life.h"
#include "shardwright/planner/problem.h"

namespace shardwright::planner {

struct ValueTemplate {
  std::vector<ValueChoice> choices;
  // Conversions a choice pays for itself, picoseconds: those of sources and of
  // mixed readers. All others are paid on the edge.
  std::vector<std::int64_t> cost;
  // Rows: the producer's choices. Null for a source.
  std::shared_ptr<const solver::EdgeTable> producer_edge;
};

// Answers kept for values that look alike.
class ValueTemplates {
 public:
  ValueTemplates(const PlanningProblem& problem, EdgeTables& tables)
      : problem_(problem), tables_(tables) {}

  const ValueTemplate& find(const ValueContext& c);

 private:
  Signature key_of(const ValueContext& c);

  const PlanningProblem& problem_;
  EdgeTables& tables_;
  std::map<Signature, ValueTemplate> known_;
  std::map<Signature, std::int32_t> op_choices_;  // numbered
};

}  // namespace shardwright::planner
