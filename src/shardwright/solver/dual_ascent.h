// A lower bound on node and edge costs (no memory) for problems whose
// elimination tables would be too large: messages that raise the dual of the
// local polytope relaxation, one node after the other.
//
// Every edge lends costs to its two ends, m(e, i)[class of k], which changes no
// total:
//   node i, choice k:  theta_i[k] = c_i[k] + sum_e m(e, i)[k]
//   edge e:            r_e[k, l] - m(e, a)[k] - m(e, b)[l]
// so for any messages the sum of all minima bounds the least total from below.
// A sweep visits the nodes in order: a node takes all that its edges can give
// (their least entry per class becomes zero) and lends equal shares of what its
// choices differ in to the edges that lead onward; then back again. The bound
// never falls. This is TRW-S (Kolmogorov 2006) in the form of SRMP (Kolmogorov
// 2015) for pairs. At the end it is mostly the optimum of the linear
// relaxation, at the price of some hundred looks at every table.
//
// Messages are doubles; the bound that is returned is added up again in
// integers, for whatever messages there are.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shardwright/solver/budget.h"
#include "shardwright/solver/choice_problem.h"
#include "shardwright/solver/elimination.h"

namespace shardwright::solver::internal {

class DualAscent {
 public:
  struct Effort {
    int sweeps = 400;  // there and back
    // Stops when a batch of sweeps gains less than this, or when the bound
    // reaches the cutoff; in the units of the costs given.
    double least_gain = 0;
    double cutoff = 1e300;
  };

  // Edge costs are multiplied by `edge_scale`; 0 keeps only which pairs are
  // infinite. The problem must outlive this.
  DualAscent(const ChoiceProblem& problem, std::int64_t edge_scale,
             Budget* budget);

  // A bound for the given cost per flat choice (>= kForbidden: not allowed);
  // kInfinite: no choice is possible. Starts from the messages there are.
  // Never stops early but for a spent budget: the bound is valid then too.
  std::int64_t raise(std::span<const std::int64_t> node_cost,
                     const Effort& effort);

  // After raise() with the same costs: one choice per node, each the best
  // beside those chosen before and the messages of those to come, none with an
  // infinite edge. False when that fails.
  bool decode(std::vector<std::int32_t>* choice);
  // The best choice of each node by itself, edges or not.
  void best_by_node(std::vector<std::int32_t>* choice) const;

  // After raise() with the same costs: per flat choice a bound on the total
  // with that choice taken (kInfinite: none). False when there is none.
  bool choice_bounds(std::vector<std::int64_t>* bounds);

  // What the edges were lent, to start from later.
  using Messages = std::vector<double>;
  Messages messages() const;
  void set_messages(const Messages& messages);

 private:
  struct End {  // of an edge, as seen by one of its nodes
    std::int32_t node = 0;
    std::int32_t other = 0;
    std::int32_t num_classes = 0;
    std::size_t message = 0;  // first of num_classes in messages_
    std::size_t table = 0;
    const std::int32_t* class_of = nullptr;  // per choice of the node
  };

  void add_table(const EdgeTable& table);
  void order_ends();
  void load(std::span<const std::int64_t> node_cost);
  void touch(std::int32_t node);
  void outdate(std::int32_t end);
  void find_alive(std::int32_t node);
  void read_edge(std::int32_t end);
  // The node takes what its edges give; theta_ holds its costs afterwards.
  // False: no choice is left.
  bool collect(std::int32_t node);
  void distribute(std::int32_t node, bool forward);
  bool sweep(bool forward);
  double bound_now() const;
  std::int64_t exact_bound() const;
  bool sums_are_exact(std::int32_t node) const;

  const ChoiceProblem& problem_;
  std::int64_t scale_;
  Budget* budget_;
  FlatIndex index_;
  std::vector<std::vector<double>> tables_;  // [class of other][class]
  std::vector<End> ends_;                    // edge e: 2 e and 2 e + 1
  std::vector<std::int32_t> ends_of_;        // by node
  std::vector<std::int32_t> first_end_;      // per node, and the total
  std::vector<double> share_;                // per node
  std::int64_t num_cells_ = 0;

  // By end and class: what is lent now, what was when the node last passed it
  // on (the other node reads that), and what the edge could give to this end.
  std::vector<double> messages_;
  std::vector<double> sent_;
  std::vector<double> lines_;
  std::vector<std::uint8_t> stale_;        // per end: its line is out of date
  std::vector<std::uint8_t> changed_[2];   // per node, [0] way back, [1] there
  std::vector<std::uint8_t> class_alive_;  // per message
  std::vector<double> cost_;               // per flat choice
  std::vector<std::int64_t> exact_cost_;
  std::vector<double> lowest_;  // per node, after its last collect()
  std::vector<double> theta_;   // of the node at hand
  std::vector<double> least_;   // by class of the end at hand
  std::vector<std::uint8_t> alive_;
  std::int64_t work_ = 0;  // not charged yet
};

}  // namespace shardwright::solver::internal
