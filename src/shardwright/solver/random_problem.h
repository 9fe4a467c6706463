// Seeded random problems for tests and benchmarks.
#pragma once

#include <cstdint>

#include "shardwright/solver/choice_problem.h"

namespace shardwright::solver {

// The same numbers on every platform (std:: distributions differ).
class TestRandom {
 public:
  explicit TestRandom(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15ULL;
    std::uint64_t x = state_;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
  }
  // In [0, count).
  std::int32_t below(std::int32_t count) {
    return static_cast<std::int32_t>(next() %
                                     static_cast<std::uint64_t>(count));
  }
  bool chance(double p) { return double(next() >> 11) * 0x1.0p-53 < p; }

 private:
  std::uint64_t state_;
};

// Up to 7 nodes with up to 4 choices: small enough for brute_force(), rich in
// ties, infinite and parallel edges, one-to-one tables, nodes with a single
// choice, several intervals and limits of every tightness (zero included).
ChoiceProblem random_problem(std::uint64_t seed);

// The same problem, but choices of half of the seeds may be forbidden: of an
// infinite cost, sometimes all of a node.
ChoiceProblem random_problem_with_forbidden(std::uint64_t seed);

// 10 to 30 nodes with 3 to 8 choices, joined along a chain and here and there
// across it; some pairs are infinite, and every third seed forbids choices.
// `limit` is left open.
ChoiceProblem random_middle_problem(std::uint64_t seed);

struct TransformerShape {
  int num_layers = 4;
  int ops_per_layer = 12;
  std::uint64_t seed = 1;
};

// A joint sharding x keep/recompute problem in miniature: per layer a chain of
// ops (layout x fate) with residual edges, a parameter per second op (the
// first and last layer share one), and a two-way region node joined to all of
// its layer. `limit` is left open.
ChoiceProblem transformer_like(const TransformerShape& shape);

}  // namespace shardwright::solver
