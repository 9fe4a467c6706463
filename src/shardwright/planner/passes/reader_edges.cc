#include <algorithm>
#include <functional>
#include <numeric>

#include "shardwright/planner/lives.h"
#include "shardwright/planner/passes/nodes.h"

namespace shardwright::planner {
namespace {

// First number of a relation; value_nodes.cc has 0, parameter_nodes.cc 1.
constexpr std::int32_t kReader = 2, kUse = 3, kLink = 4;

std::int64_t free_if(bool allowed) { return allowed ? 0 : solver::kInfinite; }
std::int32_t bit(bool b) { return b ? 1 : 0; }

class ReaderEdges {
 public:
  ReaderEdges(const Model& model, EdgeTables& tables, PlanningProblem& problem)
      : model_(model), tables_(tables), problem_(problem) {}

  void add_copy(std::int32_t copy);
  void add_parameter(ValueId id);
  void add_region_links();

 private:
  [[nodiscard]] const PricedStrategy& priced(OpId op,
                                             const OpChoice& choice) const {
    return model_.class_of(op).priced[static_cast<std::size_t>(choice.priced)];
  }
  // The port at which a reader takes what it reads.
  [[nodiscard]] std::int32_t port_of(const Reader& reader,
                                     const OpChoice& choice) const {
    const PricedStrategy& run = priced(reader.op, choice);
    return tables_.ports.of(
        model_.class_of(reader.op)
            .set.strategies[static_cast<std::size_t>(run.index)]
            .operands[static_cast<std::size_t>(reader.operands.front())]);
  }

  const Model& model_;
  EdgeTables& tables_;
  PlanningProblem& problem_;
};

// A reader takes the value's layout (or, where readers mix, the value as
// produced), and what it needs of that storage is allowed for. Fates agree
// within a region.
void ReaderEdges::add_copy(std::int32_t copy) {
  const auto index = static_cast<std::size_t>(copy);
  const Copy& entry = model_.timeline.copies[index];
  const std::int32_t home = life_of_value(model_, entry.value).home_region;
  const std::int32_t copy_home = life_of_copy(model_, copy).home_region;
  const Classes columns =
      classify(problem_.copy_choices[index], [&](const ValueChoice& c) {
        return Signature{tables_.ports.of(c.layout),
                         bit(c.passage.copies),
                         bit(c.passage.recompute),
                         bit(c.need.internal),
                         c.need.external,
                         c.mixed ? tables_.ports.of(c.produced) : -1,
                         bit(c.produced_recompute),
                         bit(c.produced_need.internal),
                         c.produced_need.external};
      });
  for (const Reader& reader : readers_of(model_, entry)) {
    const ReaderNeeds of_original(model_, reader, home);
    const ReaderNeeds of_copy(model_, reader, copy_home);
    const Classes rows = classify(
        problem_.op_choices[reader.op.index()], [&](const OpChoice& c) {
          const PricedStrategy& run = priced(reader.op, c);
          const Need original = of_original.of(run, c.recompute);
          const Need of_it = of_copy.of(run, c.recompute);
          return Signature{port_of(reader, c),     bit(c.recompute),
                           bit(original.internal), original.external,
                           bit(of_it.internal),    of_it.external};
        });
    const std::int32_t region = model_.recomputable_region(reader.op);
    const bool at_home = region >= 0 && region == home;
    const bool at_copy = region >= 0 && region == copy_home;
    problem_.choice.edges.push_back(tables_.edge(
        problem_.node_of_op[reader.op.index()], problem_.node_of_copy[index],
        rows, columns, {kReader, bit(at_home), bit(at_copy)},
        [=](const Signature& o, const Signature& v) {
          const bool copies = v[1] == 1;
          const bool mixed = v[5] >= 0;
          const bool fits_original =
              o[2] <= v[mixed ? 7 : 3] && o[3] <= v[mixed ? 8 : 4];
          const bool fits_copy = o[4] <= v[3] && o[5] <= v[4];
          if (mixed && at_home && o[1] != v[6]) return solver::kInfinite;
          if (copies && at_copy && o[1] != v[2]) return solver::kInfinite;
          if (!mixed && !copies && at_home && o[1] != v[2]) {
            return solver::kInfinite;
          }
          if (mixed && v[5] == o[0] && fits_original) return std::int64_t{0};
          return free_if(v[0] == o[0] && (copies ? fits_copy : fits_original));
        }));
  }
}

// The op's port is the use's compute layout. It regathers exactly where it
// would save the gathered copy and does not.
void ReaderEdges::add_parameter(ValueId id) {
  for (const Reader& reader : model_.readers[id.index()]) {
    const std::pair<std::int32_t, std::int32_t> key{reader.op.value, id.value};
    const ReaderNeeds needs(model_, reader,
                            model_.recomputable_region(reader.op));
    const Classes rows = classify(
        problem_.op_choices[reader.op.index()], [&](const OpChoice& c) {
          const Need need = needs.of(priced(reader.op, c), c.recompute);
          return Signature{port_of(reader, c), bit(c.recompute),
                           bit(need.internal)};
        });
    problem_.choice.edges.push_back(
        tables_.edge(problem_.node_of_op[reader.op.index()],
                     problem_.node_of_use.at(key), rows,
                     classify(problem_.use_choices.at(key),
                              [&](const UseChoice& c) {
                                return Signature{tables_.ports.of(c.compute),
                                                 bit(c.recompute), bit(c.saved),
                                                 bit(c.regather)};
                              }),
                     {kUse}, [](const Signature& o, const Signature& u) {
                       return free_if(o[0] == u[0] && o[1] == u[1] &&
                                      o[2] <= u[2] && o[2] >= u[3]);
                     }));
  }
}

// Ops of a region share its fate. Most are tied through the values between
// them; one link per further connected part ties the rest.
void ReaderEdges::add_region_links() {
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
      problem_.choice.edges.push_back(tables_.edge(
          problem_.node_of_op[static_cast<std::size_t>(previous)],
          problem_.node_of_op[i],
          classify(problem_.op_choices[static_cast<std::size_t>(previous)],
                   fate),
          classify(problem_.op_choices[i], fate), {kLink},
          [](const Signature& x, const Signature& y) {
            return free_if(x == y);
          }));
      parent[static_cast<std::size_t>(root(op))] = root(previous);
    }
    previous = op;
  }
}

}  // namespace

void add_reader_edges(const Model& model, EdgeTables& tables,
                      PlanningProblem& problem) {
  ReaderEdges edges(model, tables, problem);
  for (std::size_t i = 0; i < model.timeline.copies.size(); ++i) {
    edges.add_copy(static_cast<std::int32_t>(i));
  }
  for (std::size_t i = 0; i < model.graph->values.size(); ++i) {
    if (problem.node_of_parameter[i] >= 0) edges.add_parameter(ValueId(i));
  }
  edges.add_region_links();
}

}  // namespace shardwright::planner
