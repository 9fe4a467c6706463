#include <algorithm>

#include "shardwright/solver/presolve_work.h"

namespace shardwright::solver::internal {
namespace {

bool matters(const MemoryInterval& item) {
  return item.lo < item.hi && item.bytes > 0;
}

// Reads nodes off a problem. Positions are ranked with one array for all nodes:
// a node has few of them.
class NodeReader {
 public:
  explicit NodeReader(std::int32_t num_positions)
      : rank_(static_cast<std::size_t>(num_positions) + 1, -1) {}

  void read(const Node& node, Catalogue* catalogue, WorkNode* out) {
    List ends;
    auto see = [&](std::int32_t p) {
      if (rank_[p] >= 0) return;
      rank_[p] = 0;
      ends.push_back(p);
    };
    for (const Choice& choice : node.choices) {
      for (const MemoryInterval& item : choice.intervals) {
        if (!matters(item)) continue;
        see(item.lo);
        see(item.hi);
      }
    }
    std::sort(ends.begin(), ends.end());
    for (std::size_t e = 0; e < ends.size(); ++e) {
      rank_[ends[e]] = static_cast<std::int32_t>(e);
    }
    numbers_.clear();
    for (const Choice& choice : node.choices) add(choice);
    for (const std::int32_t p : ends) rank_[p] = -1;
    const auto segments =
        ends.empty() ? 0 : static_cast<std::int32_t>(ends.size()) - 1;
    const Catalogue::Resized shape = catalogue->shape(numbers_, segments);
    out->shape = shape.shape;
    if (shape.ends == nullptr) {
      out->positions = std::move(ends);
    } else {
      for (const std::int32_t e : shape.ends->values) {
        out->positions.push_back(ends[e]);
      }
    }
    const auto count = static_cast<std::int32_t>(node.choices.size());
    while (static_cast<std::int32_t>(counting_.size()) < count) {
      counting_.push_back(static_cast<std::int32_t>(counting_.size()));
    }
    out->settings = catalogue->settings(
        1, List(counting_.begin(), counting_.begin() + count));
  }

 private:
  void add(const Choice& choice) {
    numbers_.push_back(choice.cost);
    const std::size_t count_at = numbers_.size();
    numbers_.push_back(0);
    for (const MemoryInterval& item : choice.intervals) {
      if (!matters(item)) continue;
      ++numbers_[count_at];
      numbers_.insert(numbers_.end(),
                      {rank_[item.lo], rank_[item.hi], item.bytes});
    }
  }

  List rank_;  // per position, -1: not an end of this node
  List counting_;
  std::vector<std::int64_t> numbers_;
};

// Choices that are forbidden, or infinite by themselves, go.
void forbid(const std::vector<bool>& forbidden, Work* work) {
  std::size_t flat = 0;
  for (std::size_t i = 0; i < work->nodes.size(); ++i) {
    const std::int32_t count = work->nodes[i].shape->num_choices();
    List kept;
    for (std::int32_t k = 0; k < count; ++k, ++flat) {
      if (!forbidden.empty() && forbidden[flat]) continue;
      if (work->nodes[i].shape->cost[k] < kInfinite) kept.push_back(k);
    }
    if (static_cast<std::int32_t>(kept.size()) == count) continue;
    work->keep_choices(static_cast<std::int32_t>(i),
                       work->catalogue.indices(std::move(kept)));
  }
}

}  // namespace

void load(const ChoiceProblem& problem, const std::vector<bool>& forbidden,
          Work* work) {
  work->nodes.resize(problem.nodes.size());
  work->node_dirty.assign(problem.nodes.size(), true);
  work->place_in_group.assign(problem.nodes.size(), -1);
  NodeReader reader(problem.num_positions);
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    WorkNode& node = work->nodes[i];
    node.name = problem.nodes[i].name;
    node.members = {static_cast<std::int32_t>(i)};
    reader.read(problem.nodes[i], &work->catalogue, &node);
  }
  work->edges.reserve(problem.edges.size());
  for (const Edge& edge : problem.edges) {
    const auto id = static_cast<std::int32_t>(work->edges.size());
    work->nodes[edge.a].edges.push_back(id);
    work->nodes[edge.b].edges.push_back(id);
    work->edges.push_back(
        {edge.a, edge.b, work->catalogue.table(edge.table.get())});
  }
  forbid(forbidden, work);
}

}  // namespace shardwright::solver::internal
