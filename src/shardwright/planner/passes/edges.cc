#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <numeric>

#include "shardwright/planner/passes/nodes.h"
#include "shardwright/planner/passes/price.h"

namespace shardwright::planner {
namespace {

using sharding::Port;

// Ports as small numbers, so that signatures are cheap to compare.
class PortIds {
 public:
  std::int32_t of(const Port& port) {
    return ids_.emplace(port, static_cast<std::int32_t>(ids_.size()))
        .first->second;
  }

 private:
  std::map<Port, std::int32_t> ids_;
};

// What an edge can see of a choice; choices with equal signatures share a row.
using Signature = std::vector<std::int32_t>;

struct Classes {
  std::vector<std::int32_t> class_of;  // per choice
  std::vector<Signature> signatures;   // per class
};

template <typename T, typename F>
Classes classify(const std::vector<T>& choices, F signature_of) {
  Classes out;
  std::map<Signature, std::int32_t> known;
  for (const T& choice : choices) {
    Signature signature = signature_of(choice);
    const auto [entry, fresh] = known.emplace(
        signature, static_cast<std::int32_t>(out.signatures.size()));
    if (fresh) out.signatures.push_back(std::move(signature));
    out.class_of.push_back(entry->second);
  }
  return out;
}

using Allowed = std::function<bool(const Signature&, const Signature&)>;

class EdgeWriter {
 public:
  EdgeWriter(const Model& model, PlanningProblem& problem)
      : model_(model), problem_(problem) {}

  // Equal rows, columns and relation give one shared table.
  void add(std::int32_t a, std::int32_t b, const Classes& rows,
           const Classes& columns, std::int32_t relation,
           const Allowed& allowed) {
    Key key{relation, rows.class_of, rows.signatures, columns.class_of,
            columns.signatures};
    auto& table = tables_[std::move(key)];
    if (table == nullptr) {
      auto made = std::make_shared<solver::EdgeTable>();
      made->row_class = rows.class_of;
      made->col_class = columns.class_of;
      made->num_row_classes = static_cast<std::int32_t>(rows.signatures.size());
      made->num_col_classes =
          static_cast<std::int32_t>(columns.signatures.size());
      for (const Signature& row : rows.signatures) {
        for (const Signature& column : columns.signatures) {
          made->cost.push_back(allowed(row, column) ? 0 : solver::kInfinite);
        }
      }
      table = std::move(made);
    }
    problem_.choice.edges.push_back(solver::Edge{a, b, table});
  }

  void add_producer_edge(std::size_t value);
  void add_reader_edges(std::size_t value);
  void add_parameter_edges(std::size_t value);
  void add_region_links();

 private:
  struct Key {
    std::int32_t relation;
    std::vector<std::int32_t> row_class;
    std::vector<Signature> rows;
    std::vector<std::int32_t> col_class;
    std::vector<Signature> columns;
    auto operator<=>(const Key&) const = default;
  };

  [[nodiscard]] const PricedStrategy& priced(OpId op,
                                             const OpChoice& choice) const {
    return model_.class_of(op).priced[static_cast<std::size_t>(choice.priced)];
  }
  [[nodiscard]] const strategy::Strategy& strategy(
      OpId op, const OpChoice& choice) const {
    return model_.class_of(op)
        .set.strategies[static_cast<std::size_t>(priced(op, choice).index)];
  }

  const Model& model_;
  PlanningProblem& problem_;
  PortIds ports_;
  std::map<Key, std::shared_ptr<const solver::EdgeTable>> tables_;
};

// The producer's result port is A; its fate is A's; what it saves of its own
// result must be allowed for.
void EdgeWriter::add_producer_edge(std::size_t value) {
  const ir::Value& entry = model_.graph->values[value];
  const OpId op = entry.producer;
  if (!op.valid()) return;
  const auto result = static_cast<std::size_t>(entry.result_index);
  const bool fate = model_.recomputable_region(op) >= 0;
  const Classes rows =
      classify(problem_.op_choices[op.index()], [&](const OpChoice& c) {
        return Signature{ports_.of(strategy(op, c).results[result]),
                         fate && c.recompute ? 1 : 0,
                         priced(op, c).footprint.saves_result[result] ? 1 : 0};
      });
  const Classes columns =
      classify(problem_.value_choices[value], [&](const ValueChoice& c) {
        return Signature{ports_.of(c.produced), c.recompute_produced ? 1 : 0,
                         c.produced_need.internal ? 1 : 0};
      });
  add(problem_.node_of_op[op.index()], problem_.node_of_value[value], rows,
      columns, 0, [](const Signature& o, const Signature& v) {
        return o[0] == v[0] && o[1] == v[1] && o[2] <= v[2];
      });
}

// Each reader takes A or B, and what it needs of the copy is allowed for.
void EdgeWriter::add_reader_edges(std::size_t value) {
  const ValueId id(value);
  const Life produced = life_of_value(model_, id);
  const Life converted = life_of_copy(model_, id);
  const Classes columns =
      classify(problem_.value_choices[value], [&](const ValueChoice& c) {
        return Signature{c.reads_produced ? ports_.of(c.produced) : -1,
                         c.converted.empty() ? -1 : ports_.of(c.converted),
                         c.shares_storage ? 1 : 0,
                         c.produced_need.internal ? 1 : 0,
                         c.produced_need.external,
                         c.converted_need.internal ? 1 : 0,
                         c.converted_need.external,
                         c.recompute_produced ? 1 : 0,
                         c.recompute_converted ? 1 : 0};
      });
  for (const Reader& reader : model_.readers[value]) {
    const OpId op = reader.op;
    const std::int32_t region = model_.recomputable_region(op);
    const bool first = model_.timeline.slot_of_conversion[value] >= 0 &&
                       model_.timeline
                               .slots[static_cast<std::size_t>(
                                   model_.timeline.slot_of_conversion[value])]
                               .op == op;
    const bool in_producer_region =
        region >= 0 && region == produced.home_region;
    const bool in_copy_region = region >= 0 && region == converted.home_region;
    const Classes rows =
        classify(problem_.op_choices[op.index()], [&](const OpChoice& c) {
          Need of_produced;
          Need of_converted;
          for (const std::int32_t k : reader.operands) {
            of_produced.merge(need_of(model_, op, k, priced(op, c), c.recompute,
                                      produced.home_region));
            of_converted.merge(need_of(model_, op, k, priced(op, c),
                                       c.recompute, converted.home_region));
          }
          const auto operand =
              static_cast<std::size_t>(reader.operands.front());
          return Signature{ports_.of(strategy(op, c).operands[operand]),
                           of_produced.internal ? 1 : 0,
                           of_produced.external,
                           of_converted.internal ? 1 : 0,
                           of_converted.external,
                           c.recompute ? 1 : 0};
        });
    const std::int32_t relation = 1 + (in_producer_region ? 1 : 0) +
                                  (in_copy_region ? 2 : 0) + (first ? 4 : 0);
    add(problem_.node_of_op[op.index()], problem_.node_of_value[value], rows,
        columns, relation, [=](const Signature& o, const Signature& v) {
          // Fates inside one region agree, whichever copy is read.
          if (in_producer_region && o[5] != v[7]) return false;
          const bool has_copy = v[1] >= 0;
          if (has_copy && in_copy_region && o[5] != v[8]) return false;
          const bool meets_produced = o[1] <= v[3] && o[2] <= v[4];
          const bool meets_converted = o[3] <= v[5] && o[4] <= v[6];
          if (v[0] == o[0] && meets_produced) return true;
          if (v[1] != o[0]) return false;
          return v[2] == 1 ? meets_produced : meets_converted;
        });
  }
}

void EdgeWriter::add_parameter_edges(std::size_t value) {
  const ValueId id(value);
  const Classes storages = classify(problem_.parameter_choices[value],
                                    [&](const ParameterChoice& c) {
                                      return Signature{ports_.of(c.storage)};
                                    });
  for (const Reader& reader : model_.readers[value]) {
    const OpId op = reader.op;
    const std::pair<std::int32_t, std::int32_t> key{op.value, id.value};
    const std::int32_t use_node = problem_.node_of_use.at(key);
    const std::vector<UseChoice>& uses = problem_.use_choices.at(key);
    add(problem_.node_of_parameter[value], use_node, storages,
        classify(uses,
                 [&](const UseChoice& c) {
                   return Signature{ports_.of(c.storage)};
                 }),
        20, [](const Signature& p, const Signature& u) { return p == u; });
    const std::int32_t region = model_.recomputable_region(op);
    const Classes rows =
        classify(problem_.op_choices[op.index()], [&](const OpChoice& c) {
          Need need;
          for (const std::int32_t k : reader.operands) {
            need.merge(
                need_of(model_, op, k, priced(op, c), c.recompute, region));
          }
          const auto operand =
              static_cast<std::size_t>(reader.operands.front());
          return Signature{ports_.of(strategy(op, c).operands[operand]),
                           c.recompute ? 1 : 0, need.internal ? 1 : 0};
        });
    add(problem_.node_of_op[op.index()], use_node, rows,
        classify(uses,
                 [&](const UseChoice& c) {
                   return Signature{ports_.of(c.compute), c.recompute ? 1 : 0,
                                    c.saved ? 1 : 0};
                 }),
        21, [](const Signature& o, const Signature& u) {
          return o[0] == u[0] && o[1] == u[1] && o[2] <= u[2];
        });
  }
}

// Ops of a region share its fate. Most are tied through the values between
// them; one link per further connected part ties the rest.
void EdgeWriter::add_region_links() {
  const ir::Graph& graph = *model_.graph;
  std::vector<std::int32_t> parent(graph.ops.size());
  std::iota(parent.begin(), parent.end(), 0);
  const std::function<std::int32_t(std::int32_t)> root =
      [&](std::int32_t i) -> std::int32_t {
    while (parent[static_cast<std::size_t>(i)] != i) {
      i = parent[static_cast<std::size_t>(i)] =
          parent[static_cast<std::size_t>(parent[static_cast<std::size_t>(i)])];
    }
    return i;
  };
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    for (const ValueId id : graph.ops[i].operands) {
      const OpId producer = graph.value(id).producer;
      if (!producer.valid()) continue;
      const std::int32_t region = model_.recomputable_region(OpId(i));
      if (region < 0 || model_.recomputable_region(producer) != region) {
        continue;
      }
      parent[static_cast<std::size_t>(root(static_cast<std::int32_t>(i)))] =
          root(producer.value);
    }
  }
  std::vector<std::int32_t> last(model_.regions.size(), -1);
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const std::int32_t region = model_.recomputable_region(OpId(i));
    if (region < 0) continue;
    std::int32_t& previous = last[static_cast<std::size_t>(region)];
    const auto op = static_cast<std::int32_t>(i);
    if (previous >= 0 && root(previous) != root(op)) {
      const auto fate = [](const OpChoice& c) {
        return Signature{c.recompute ? 1 : 0};
      };
      add(problem_.node_of_op[static_cast<std::size_t>(previous)],
          problem_.node_of_op[i],
          classify(problem_.op_choices[static_cast<std::size_t>(previous)],
                   fate),
          classify(problem_.op_choices[i], fate), 30,
          [](const Signature& x, const Signature& y) { return x == y; });
      parent[static_cast<std::size_t>(root(op))] = root(previous);
    }
    previous = op;
  }
}

}  // namespace

Result<bool> add_edges(const Model& model, PlanningProblem& problem) {
  EdgeWriter writer(model, problem);
  for (std::size_t i = 0; i < model.graph->values.size(); ++i) {
    if (problem.node_of_value[i] >= 0) {
      writer.add_producer_edge(i);
      writer.add_reader_edges(i);
    }
    if (problem.node_of_parameter[i] >= 0) writer.add_parameter_edges(i);
  }
  writer.add_region_links();
  return true;
}

}  // namespace shardwright::planner
