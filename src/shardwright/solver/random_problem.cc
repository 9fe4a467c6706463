#include "shardwright/solver/random_problem.h"

#include <algorithm>
#include <limits>
#include <string>

namespace shardwright::solver {
namespace {

std::shared_ptr<const EdgeTable> random_table(TestRandom* random,
                                              std::int32_t rows,
                                              std::int32_t cols) {
  const int kind = random->below(5);
  std::vector<std::int64_t> matrix;
  for (std::int32_t k = 0; k < rows; ++k) {
    for (std::int32_t l = 0; l < cols; ++l) {
      std::int64_t cost = 0;
      if (kind == 0) cost = k % cols == l ? random->below(3) : kInfinite;
      if (kind == 1) cost = random->chance(0.3) ? kInfinite : 0;
      if (kind == 2) cost = 2 * k + 3 * l;  // separable
      if (kind == 3) cost = random->below(6) - 1;
      if (kind == 4) {
        cost = random->chance(0.25) ? kInfinite : random->below(4);
      }
      matrix.push_back(cost);
    }
  }
  return make_edge_table(rows, cols, matrix);
}

}  // namespace

ChoiceProblem random_problem(std::uint64_t seed) {
  TestRandom random(seed * 7919 + 17);
  ChoiceProblem problem;
  problem.num_positions = random.below(8);
  const int num_nodes = 1 + random.below(7);
  const bool large = random.chance(0.2);  // picoseconds and bytes of real size
  for (int i = 0; i < num_nodes; ++i) {
    Node node;
    node.name = "n" + std::to_string(i);
    const int num_choices = 1 + random.below(4);
    for (int k = 0; k < num_choices; ++k) {
      Choice choice;
      choice.cost = random.below(8) - (random.chance(0.1) ? 4 : 0);
      if (large) choice.cost = choice.cost * 1'000'000'007 + random.below(100);
      const int num_intervals =
          problem.num_positions == 0 ? 0 : random.below(4);
      for (int n = 0; n < num_intervals; ++n) {
        std::int32_t lo = random.below(problem.num_positions + 1);
        std::int32_t hi = random.below(problem.num_positions + 1);
        if (lo > hi) std::swap(lo, hi);
        std::int64_t bytes = random.below(7);
        if (large) bytes = bytes * 1'000'000'009 + random.below(5);
        choice.intervals.push_back({lo, hi, bytes});
      }
      node.choices.push_back(choice);
    }
    problem.nodes.push_back(node);
  }
  const int num_edges = num_nodes < 2 ? 0 : random.below(2 * num_nodes);
  for (int e = 0; e < num_edges; ++e) {
    const std::int32_t a = random.below(num_nodes);
    const std::int32_t b = random.below(num_nodes);
    if (a == b) continue;
    problem.edges.push_back(
        {a, b,
         random_table(
             &random,
             static_cast<std::int32_t>(problem.nodes[a].choices.size()),
             static_cast<std::int32_t>(problem.nodes[b].choices.size()))});
  }
  const int tightness = random.below(5);
  if (tightness > 0) {
    std::int64_t limit = random.below(6 * num_nodes);
    if (tightness == 1) limit = 0;
    problem.limit = large ? limit * 1'000'000'009 : limit;
  }
  return problem;
}

namespace {

// Any cost at or above kInfinite forbids.
void forbid_choices(double part, TestRandom* random, ChoiceProblem* problem) {
  constexpr std::int64_t kForbidding[] = {
      kInfinite, kInfinite + 5, std::numeric_limits<std::int64_t>::max()};
  for (Node& node : problem->nodes) {
    for (Choice& choice : node.choices) {
      if (random->chance(part)) choice.cost = kForbidding[random->below(3)];
    }
  }
}

}  // namespace

ChoiceProblem random_problem_with_forbidden(std::uint64_t seed) {
  ChoiceProblem problem = random_problem(seed);
  TestRandom random(seed * 104'729 + 3);
  if (random.chance(0.5)) forbid_choices(0.2, &random, &problem);
  return problem;
}

ChoiceProblem random_middle_problem(std::uint64_t seed) {
  TestRandom random(seed * 15'485'863 + 11);
  ChoiceProblem problem;
  problem.num_positions = 3 + random.below(6);
  const std::int32_t num_nodes = 10 + random.below(21);
  for (std::int32_t i = 0; i < num_nodes; ++i) {
    Node node{"n" + std::to_string(i), {}};
    const std::int32_t num_choices = 3 + random.below(6);
    for (std::int32_t k = 0; k < num_choices; ++k) {
      // Dearer choices need less memory, roughly.
      Choice choice{10 * k + random.below(40), {}};
      for (std::int32_t n = 1 + random.below(2); n > 0; --n) {
        // Few are alive together, as values of a long step are.
        const std::int32_t lo = random.below(problem.num_positions);
        const std::int32_t most = std::min(3, problem.num_positions - lo);
        choice.intervals.push_back({lo, lo + 1 + random.below(most),
                                    10 * (num_choices - k) + random.below(60)});
      }
      node.choices.push_back(std::move(choice));
    }
    problem.nodes.push_back(std::move(node));
  }
  if (seed % 3 == 0) forbid_choices(0.1, &random, &problem);
  const auto add_edge = [&](std::int32_t a, std::int32_t b) {
    const std::size_t rows = problem.nodes[a].choices.size();
    const std::size_t cols = problem.nodes[b].choices.size();
    std::vector<std::int64_t> matrix;
    for (std::size_t n = 0; n < rows * cols; ++n) {
      matrix.push_back(random.chance(0.1) ? kInfinite : random.below(50) - 5);
    }
    problem.edges.push_back(
        {a, b,
         make_edge_table(static_cast<std::int32_t>(rows),
                         static_cast<std::int32_t>(cols), matrix)});
  };
  for (std::int32_t i = 1; i < num_nodes; ++i) {
    if (random.chance(0.9)) add_edge(i - 1, i);
    if (i > 2 && random.chance(0.1)) add_edge(i, random.below(i - 1));
  }
  return problem;
}

namespace {

// Layouts 0..3; a fate says what is available in backward: 0 nothing, 1 kept,
// 2 recomputed. Readers that save the value need it, and so do readers that
// run again themselves.
struct OpChoice {
  int layout = 0;
  int fate = 0;
};

constexpr int kLayouts = 4;
constexpr int kFates = 3;

}  // namespace

ChoiceProblem transformer_like(const TransformerShape& shape) {
  TestRandom random(shape.seed);
  ChoiceProblem problem;
  const int ops = shape.ops_per_layer;
  const int total = shape.num_layers * ops;
  // Forward 0..total-1; then, per layer from the last to the first, its
  // recompute positions and its backward ones.
  problem.num_positions = 3 * total + 1;
  auto recompute_at = [&](int layer, int op) {
    return total + (shape.num_layers - 1 - layer) * 2 * ops + op;
  };
  auto backward_at = [&](int layer, int op) {
    return total + (shape.num_layers - 1 - layer) * 2 * ops + ops +
           (ops - 1 - op);
  };
  struct Kind {
    std::int64_t time[kLayouts];
    std::int64_t bytes[kLayouts];
    bool saved = true;
    int skip = 0;  // further reader, ops later (0: none)
  };
  std::vector<Kind> kinds(ops);
  for (Kind& kind : kinds) {
    const std::int64_t base = 1'000'000 + random.below(60'000'000);
    const std::int64_t size =
        (1 + random.below(32)) * 1'000'000 + random.below(1000) * 512;
    for (int l = 0; l < kLayouts; ++l) {
      kind.time[l] = base / (l + 1) + random.below(9'000'000);
      kind.bytes[l] = l == 0 ? size : size / (1 + random.below(8));
    }
    kind.saved = random.chance(0.7);
    kind.skip = random.chance(0.3) ? 2 + random.below(4) : 0;
  }
  auto add_node = [&](std::string name) {
    problem.nodes.push_back({std::move(name), {}});
    return static_cast<std::int32_t>(problem.nodes.size()) - 1;
  };
  std::vector<std::vector<OpChoice>> choices_of;  // per node, ops only
  std::vector<std::int32_t> op_node(total);
  std::vector<std::int32_t> region_node(shape.num_layers);
  for (int layer = 0; layer < shape.num_layers; ++layer) {
    region_node[layer] = add_node("region" + std::to_string(layer));
    // 0: as it is; 1: the block may run again (its start costs a little).
    problem.nodes.back().choices.push_back({0, {}});
    problem.nodes.back().choices.push_back({50'000, {}});
    choices_of.emplace_back();
    for (int op = 0; op < ops; ++op) {
      const Kind& kind = kinds[op];
      const int at = layer * ops + op;
      op_node[at] =
          add_node("op" + std::to_string(layer) + "_" + std::to_string(op));
      choices_of.emplace_back();
      for (int l = 0; l < kLayouts; ++l) {
        for (int fate = 0; fate < kFates; ++fate) {
          Choice choice;
          choice.cost = 3 * kind.time[l] + (fate == 2 ? kind.time[l] : 0);
          const int last = std::min(total, at + std::max(2, kind.skip + 1));
          const int end = backward_at(layer, op) + 1;
          if (fate == 1) {
            choice.intervals.push_back({at, end, kind.bytes[l]});
          } else {
            choice.intervals.push_back({at, last, kind.bytes[l]});
          }
          if (fate == 2) {
            choice.intervals.push_back(
                {recompute_at(layer, op), end, kind.bytes[l]});
          }
          // The gradient.
          choice.intervals.push_back({end - 1, end + 1, kind.bytes[l]});
          problem.nodes.back().choices.push_back(choice);
          choices_of.back().push_back({l, fate});
        }
      }
    }
  }
  auto op_table = [&](bool saved) {
    std::vector<std::int64_t> matrix;
    for (int k = 0; k < kLayouts * kFates; ++k) {
      for (int r = 0; r < kLayouts * kFates; ++r) {
        const int from = k / kFates;
        const int to = r / kFates;
        const bool needed = saved || r % kFates == 2;
        const bool there = k % kFates != 0;
        std::int64_t cost = from == to ? 0 : 4'000'000 * (1 + (from ^ to));
        if ((from ^ to) == 3) cost = kInfinite;
        matrix.push_back(needed && !there ? kInfinite : cost);
      }
    }
    return make_edge_table(kLayouts * kFates, kLayouts * kFates, matrix);
  };
  const auto saved_table = op_table(true);
  const auto free_table = op_table(false);
  std::vector<std::int64_t> region_matrix;
  for (int k = 0; k < kLayouts * kFates; ++k) {
    region_matrix.push_back(k % kFates == 2 ? kInfinite : 0);
    region_matrix.push_back(0);
  }
  const auto region_table =
      make_edge_table(kLayouts * kFates, 2, region_matrix);
  for (int at = 0; at < total; ++at) {
    const Kind& kind = kinds[at % ops];
    for (const int step : {1, kind.skip}) {
      if (step == 0 || at + step >= total) continue;
      problem.edges.push_back({op_node[at], op_node[at + step],
                               kind.saved ? saved_table : free_table});
    }
    problem.edges.push_back({op_node[at], region_node[at / ops], region_table});
  }
  // Parameters: replicated or sharded storage; the last layer reads the first
  // layer's first parameter.
  std::vector<std::int64_t> use_matrix;
  for (int k = 0; k < kLayouts * kFates; ++k) {
    for (int s = 0; s < 3; ++s) {
      use_matrix.push_back(s == 0 ? 0 : 1'500'000 * s + 100'000 * (k / kFates));
    }
  }
  const auto use_table = make_edge_table(kLayouts * kFates, 3, use_matrix);
  std::int32_t tied = -1;
  for (int at = 0; at < total; at += 2) {
    const bool is_last = at / ops == shape.num_layers - 1 && at % ops == 0;
    std::int32_t param = tied;
    if (!is_last || tied < 0) {
      param = add_node("param" + std::to_string(at));
      const std::int64_t size = (4 + random.below(12)) * 1'000'000;
      for (int s = 0; s < 3; ++s) {
        problem.nodes.back().choices.push_back(
            {s * 700'000,
             {{0, problem.num_positions, size * 4 / (s == 0 ? 1 : 4 * s)},
              {at, at + 1, size}}});
      }
      if (tied < 0) tied = param;
    }
    problem.edges.push_back({op_node[at], param, use_table});
  }
  return problem;
}

}  // namespace shardwright::solver
