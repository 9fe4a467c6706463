#include "shardwright/solver/shrink_problem.h"

#include <algorithm>
#include <utility>

#include "shardwright/base/check.h"

namespace shardwright::solver {
namespace {

template <typename T>
void erase_at(std::vector<T>* list, std::size_t index) {
  list->erase(list->begin() + static_cast<std::ptrdiff_t>(index));
}

ChoiceProblem without_node(ChoiceProblem problem, std::int32_t node) {
  erase_at(&problem.nodes, static_cast<std::size_t>(node));
  std::erase_if(problem.edges, [node](const Edge& edge) {
    return edge.a == node || edge.b == node;
  });
  for (Edge& edge : problem.edges) {
    edge.a -= edge.a > node ? 1 : 0;
    edge.b -= edge.b > node ? 1 : 0;
  }
  return problem;
}

ChoiceProblem without_choice(ChoiceProblem problem, std::int32_t node,
                             std::size_t choice) {
  erase_at(&problem.nodes[node].choices, choice);
  for (Edge& edge : problem.edges) {
    if (edge.a != node && edge.b != node) continue;
    auto table = std::make_shared<EdgeTable>(*edge.table);
    erase_at(edge.a == node ? &table->row_class : &table->col_class, choice);
    edge.table = std::move(table);
  }
  return problem;
}

ChoiceProblem with_entry(ChoiceProblem problem, std::size_t edge,
                         std::size_t entry, std::int64_t cost) {
  auto table = std::make_shared<EdgeTable>(*problem.edges[edge].table);
  table->cost[entry] = cost;
  problem.edges[edge].table = std::move(table);
  return problem;
}

class Shrinker {
 public:
  Shrinker(ChoiceProblem problem,
           const std::function<bool(const ChoiceProblem&)>& fails)
      : problem_(std::move(problem)), fails_(fails) {}

  ChoiceProblem run() {
    do {
      changed_ = false;
      drop_nodes();
      drop_edges();
      drop_choices();
      drop_intervals();
      drop_limit();
      lower_costs();
    } while (changed_);
    return std::move(problem_);
  }

 private:
  // True when the smaller problem fails too; it is then the problem.
  bool try_this(ChoiceProblem smaller) {
    if (!validate(smaller) || !fails_(smaller)) return false;
    problem_ = std::move(smaller);
    changed_ = true;
    return true;
  }

  // All lists are gone through from behind: what is dropped moves only what
  // was tried already.
  void drop_nodes() {
    for (std::size_t i = problem_.nodes.size(); i-- > 0;) {
      try_this(without_node(problem_, static_cast<std::int32_t>(i)));
    }
  }

  void drop_edges() {
    for (std::size_t e = problem_.edges.size(); e-- > 0;) {
      ChoiceProblem smaller = problem_;
      erase_at(&smaller.edges, e);
      try_this(std::move(smaller));
    }
  }

  void drop_choices() {
    for (std::size_t i = 0; i < problem_.nodes.size(); ++i) {
      for (std::size_t k = problem_.nodes[i].choices.size(); k-- > 0;) {
        try_this(without_choice(problem_, static_cast<std::int32_t>(i), k));
      }
    }
  }

  void drop_intervals() {
    for (std::size_t i = 0; i < problem_.nodes.size(); ++i) {
      for (std::size_t k = 0; k < problem_.nodes[i].choices.size(); ++k) {
        std::size_t n = problem_.nodes[i].choices[k].intervals.size();
        while (n-- > 0) {
          ChoiceProblem smaller = problem_;
          erase_at(&smaller.nodes[i].choices[k].intervals, n);
          try_this(std::move(smaller));
        }
      }
    }
    ChoiceProblem shorter = problem_;
    shorter.num_positions = 0;
    for (const Node& node : problem_.nodes) {
      for (const Choice& choice : node.choices) {
        for (const MemoryInterval& item : choice.intervals) {
          shorter.num_positions = std::max(shorter.num_positions, item.hi);
        }
      }
    }
    if (shorter.num_positions < problem_.num_positions) try_this(shorter);
  }

  void drop_limit() {
    if (!problem_.limit) return;
    ChoiceProblem smaller = problem_;
    smaller.limit.reset();
    try_this(std::move(smaller));
  }

  void lower_costs() {
    for (std::size_t i = 0; i < problem_.nodes.size(); ++i) {
      for (std::size_t k = 0; k < problem_.nodes[i].choices.size(); ++k) {
        if (problem_.nodes[i].choices[k].cost == 0) continue;
        ChoiceProblem smaller = problem_;
        smaller.nodes[i].choices[k].cost = 0;
        try_this(std::move(smaller));
      }
    }
    for (std::size_t e = 0; e < problem_.edges.size(); ++e) {
      for (std::size_t n = 0; n < problem_.edges[e].table->cost.size(); ++n) {
        if (problem_.edges[e].table->cost[n] == 0) continue;
        try_this(with_entry(problem_, e, n, 0));
      }
    }
  }

  ChoiceProblem problem_;
  const std::function<bool(const ChoiceProblem&)>& fails_;
  bool changed_ = false;
};

}  // namespace

ChoiceProblem shrink_problem(
    ChoiceProblem problem,
    const std::function<bool(const ChoiceProblem&)>& fails) {
  SW_CHECK(fails(problem), "[solver] shrink: the problem does not fail");
  return Shrinker(std::move(problem), fails).run();
}

}  // namespace shardwright::solver
