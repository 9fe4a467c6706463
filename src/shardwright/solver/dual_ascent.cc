#include "shardwright/solver/dual_ascent.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "shardwright/base/check.h"
#include "shardwright/solver/domains.h"

namespace shardwright::solver::internal {
namespace {

__extension__ typedef __int128 Wide;

// Costs of what is not possible; sums of a few stay far from overflow.
constexpr double kDead = 1e30;
constexpr double kDeadOrMore = 1e29;
// A share is cut here: any message is a valid one, and doubles hold integers
// up to 2^53.
constexpr double kLargestShare = 1125899906842624.0;   // 2^50
constexpr double kExactIntegers = 9007199254740992.0;  // 2^53
constexpr std::int64_t kLargestMessage = std::int64_t{1} << 56;
// Sweeps between two looks at the bound.
constexpr int kBatch = 8;

std::int64_t to_integer(double message) {
  const double most = double(kLargestMessage);
  return static_cast<std::int64_t>(
      std::clamp(std::round(message), -most, most));
}

}  // namespace

DualAscent::DualAscent(const ChoiceProblem& problem, std::int64_t edge_scale,
                       Budget* budget)
    : problem_(problem),
      scale_(edge_scale),
      budget_(budget),
      index_(problem),
      cost_(index_.total(), 0.0),
      exact_cost_(index_.total(), 0),
      lowest_(problem.nodes.size(), 0.0) {
  std::map<const EdgeTable*, std::size_t> known;  // first of two in tables_
  std::size_t num_messages = 0;
  for (const Edge& edge : problem.edges) {
    const EdgeTable& table = *edge.table;
    const auto [found, is_new] = known.try_emplace(&table, tables_.size());
    if (is_new) add_table(table);
    for (int end = 0; end < 2; ++end) {
      End out;
      out.node = end == 0 ? edge.a : edge.b;
      out.other = end == 0 ? edge.b : edge.a;
      out.num_classes =
          end == 0 ? table.num_row_classes : table.num_col_classes;
      out.class_of = (end == 0 ? table.row_class : table.col_class).data();
      out.message = num_messages;
      out.table = found->second + end;
      num_messages += static_cast<std::size_t>(out.num_classes);
      ends_.push_back(out);
    }
    num_cells_ += static_cast<std::int64_t>(table.cost.size());
  }
  messages_.assign(num_messages, 0.0);
  sent_.assign(num_messages, 0.0);
  lines_.assign(num_messages, 0.0);
  class_alive_.assign(num_messages, 1);
  stale_.assign(ends_.size(), 1);
  order_ends();
  changed_[0].assign(problem.nodes.size(), 1);
  changed_[1].assign(problem.nodes.size(), 1);
  budget_->charge(num_cells_ + index_.total());
}

// The table as each end reads it: for every class of the other end, a line with
// the classes of this one.
void DualAscent::add_table(const EdgeTable& table) {
  const auto rows = static_cast<std::size_t>(table.num_row_classes);
  const auto cols = static_cast<std::size_t>(table.num_col_classes);
  std::vector<double> by_col(rows * cols);
  std::vector<double> by_row(rows * cols);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < cols; ++c) {
      const std::int64_t cost = table.cost[r * cols + c];
      const double value = cost >= kInfinite ? kDead : double(cost * scale_);
      by_col[c * rows + r] = value;
      by_row[r * cols + c] = value;
    }
  }
  tables_.push_back(std::move(by_col));
  tables_.push_back(std::move(by_row));
}

// Ends by node, and the part of a node's costs that each edge onward gets.
void DualAscent::order_ends() {
  const std::size_t num_nodes = problem_.nodes.size();
  first_end_.assign(num_nodes + 1, 0);
  for (const End& end : ends_) ++first_end_[end.node + 1];
  for (std::size_t i = 0; i < num_nodes; ++i) {
    first_end_[i + 1] += first_end_[i];
  }
  ends_of_.resize(ends_.size());
  std::vector<std::int32_t> at(first_end_.begin(), first_end_.end() - 1);
  share_.assign(num_nodes, 0.0);
  std::vector<std::int32_t> later(num_nodes, 0);
  for (std::size_t e = 0; e < ends_.size(); ++e) {
    ends_of_[at[ends_[e].node]++] = static_cast<std::int32_t>(e);
    if (ends_[e].other > ends_[e].node) ++later[ends_[e].node];
  }
  for (std::size_t i = 0; i < num_nodes; ++i) {
    const std::int32_t earlier = first_end_[i + 1] - first_end_[i] - later[i];
    const std::int32_t parts = std::max({1, earlier, later[i]});
    share_[i] = 1.0 / parts;
  }
}

void DualAscent::load(std::span<const std::int64_t> node_cost) {
  for (std::int32_t i = 0; i < index_.num_nodes(); ++i) {
    bool changes = false;
    for (std::int32_t f = index_.first[i]; f < index_.first[i + 1]; ++f) {
      exact_cost_[f] = node_cost[f];
      const double cost =
          node_cost[f] >= kForbidden ? kDead : double(node_cost[f]);
      changes = changes || cost != cost_[f];
      cost_[f] = cost;
    }
    if (!changes) continue;
    touch(i);
    find_alive(i);
  }
  budget_->charge(index_.total());
}

void DualAscent::touch(std::int32_t node) {
  changed_[0][node] = 1;
  changed_[1][node] = 1;
}

// What this end sent is no longer what the other node's line was made from.
void DualAscent::outdate(std::int32_t id) {
  stale_[id ^ 1] = 1;
  touch(ends_[id].other);
}

// Which classes some possible choice of the node has. The others lend nothing.
void DualAscent::find_alive(std::int32_t node) {
  const double* cost = cost_.data() + index_.first[node];
  for (std::int32_t n = first_end_[node]; n < first_end_[node + 1]; ++n) {
    const std::int32_t id = ends_of_[n];
    const End& end = ends_[id];
    alive_.assign(end.num_classes, 0);
    for (std::int32_t k = 0; k < index_.size(node); ++k) {
      if (cost[k] < kDeadOrMore) alive_[end.class_of[k]] = 1;
    }
    bool changes = false;
    for (std::int32_t c = 0; c < end.num_classes; ++c) {
      std::uint8_t& alive = class_alive_[end.message + c];
      changes = changes || alive != alive_[c];
      alive = alive_[c];
      if (alive == 0) messages_[end.message + c] = 0;
    }
    if (changes) outdate(id);
  }
}

namespace {

// line[c] = the least of table[k][c] - lent[k] over the classes k alive.
// Written once, compiled for two instruction sets.
struct LineTask {
  double* line;
  std::size_t count;
  const double* table;
  const double* lent;
  const std::uint8_t* alive;
  std::int32_t num_lent;
};

[[gnu::always_inline]] inline void find_line(const LineTask& task) {
  double* line = task.line;
  const std::size_t count = task.count;
  std::fill_n(line, count, kDead);
  const double* table = task.table;
  for (std::int32_t k = 0; k < task.num_lent; ++k, table += count) {
    if (task.alive[k] == 0) continue;
    const double lent = task.lent[k];
    for (std::size_t c = 0; c < count; ++c) {
      const double value = table[c] - lent;
      line[c] = value < line[c] ? value : line[c];
    }
  }
}

void find_line_anywhere(const LineTask& task) { find_line(task); }

#if defined(__x86_64__) && defined(__GNUC__)
[[gnu::target("avx2")]] void find_line_avx2(const LineTask& task) {
  find_line(task);
}
const auto find_line_here =
    __builtin_cpu_supports("avx2") != 0 ? find_line_avx2 : find_line_anywhere;
#else
const auto find_line_here = find_line_anywhere;
#endif

}  // namespace

// The least that the edge could give to each class of this end.
void DualAscent::read_edge(std::int32_t id) {
  const End& end = ends_[id];
  const End& other = ends_[id ^ 1];
  find_line_here({lines_.data() + end.message,
                  static_cast<std::size_t>(end.num_classes),
                  tables_[end.table].data(), sent_.data() + other.message,
                  class_alive_.data() + other.message, other.num_classes});
  stale_[id] = 0;
  work_ += std::int64_t{end.num_classes} * other.num_classes;
}

bool DualAscent::collect(std::int32_t node) {
  const auto size = static_cast<std::size_t>(index_.size(node));
  double* cost = cost_.data() + index_.first[node];
  theta_.assign(cost, cost + size);
  for (std::int32_t n = first_end_[node]; n < first_end_[node + 1]; ++n) {
    const std::int32_t id = ends_of_[n];
    if (stale_[id] != 0) read_edge(id);
    const End& end = ends_[id];
    const double* line = lines_.data() + end.message;
    double* mine = messages_.data() + end.message;
    for (std::size_t k = 0; k < size; ++k) theta_[k] += line[end.class_of[k]];
    for (std::int32_t c = 0; c < end.num_classes; ++c) {
      mine[c] = line[c] < kDeadOrMore ? line[c] : 0.0;
    }
  }
  bool lost = false;
  double lowest = kDead;
  for (std::size_t k = 0; k < size; ++k) {
    lowest = std::min(lowest, theta_[k]);
    if (theta_[k] < kDeadOrMore || cost[k] >= kDeadOrMore) continue;
    cost[k] = kDead;
    lost = true;
  }
  lowest_[node] = lowest;
  if (lost) find_alive(node);
  work_ += static_cast<std::int64_t>(size) *
           (first_end_[node + 1] - first_end_[node] + 1);
  return lowest < kDeadOrMore;
}

void DualAscent::distribute(std::int32_t node, bool forward) {
  const double lowest = lowest_[node];
  const double share = share_[node];
  for (std::int32_t n = first_end_[node]; n < first_end_[node + 1]; ++n) {
    const std::int32_t id = ends_of_[n];
    const End& end = ends_[id];
    if ((end.other > node) != forward) continue;
    least_.assign(end.num_classes, kDead);
    for (std::size_t k = 0; k < theta_.size(); ++k) {
      double& least = least_[end.class_of[k]];
      least = std::min(least, theta_[k]);
    }
    double* mine = messages_.data() + end.message;
    double* sent = sent_.data() + end.message;
    bool changes = false;
    for (std::int32_t c = 0; c < end.num_classes; ++c) {
      if (least_[c] >= kDeadOrMore) continue;
      mine[c] -=
          std::min(kLargestShare, std::floor(share * (least_[c] - lowest)));
      changes = changes || mine[c] != sent[c];
      sent[c] = mine[c];
    }
    if (changes) outdate(id);
  }
}

// A node whose costs and edges are as they were at its last visit would only do
// the same again.
bool DualAscent::sweep(bool forward) {
  const std::int32_t count = index_.num_nodes();
  std::vector<std::uint8_t>& changed = changed_[forward ? 1 : 0];
  for (std::int32_t n = 0; n < count; ++n) {
    const std::int32_t node = forward ? n : count - 1 - n;
    if (changed[node] == 0) continue;
    if (!collect(node)) return false;
    distribute(node, forward);
    changed[node] = 0;
    // The way back has to undo what the way there did.
    if (forward) changed_[0][node] = 1;
  }
  budget_->charge(std::exchange(work_, 0) + count);
  return true;
}

double DualAscent::bound_now() const {
  double sum = 0;
  for (const double lowest : lowest_) sum += lowest;
  return sum;
}

std::int64_t DualAscent::exact_bound() const {
  std::vector<std::int64_t> whole(messages_.size());
  for (std::size_t m = 0; m < whole.size(); ++m) {
    whole[m] = to_integer(messages_[m]);
  }
  Wide sum = 0;
  constexpr Wide kNone = Wide(1) << 100;
  for (std::int32_t i = 0; i < index_.num_nodes(); ++i) {
    Wide least = kNone;
    for (std::int32_t k = 0; k < index_.size(i); ++k) {
      const std::int32_t flat = index_.first[i] + k;
      if (cost_[flat] >= kDeadOrMore) continue;
      Wide theta = exact_cost_[flat];
      for (std::int32_t n = first_end_[i]; n < first_end_[i + 1]; ++n) {
        const End& end = ends_[ends_of_[n]];
        theta += whole[end.message + end.class_of[k]];
      }
      least = std::min(least, theta);
    }
    if (least == kNone) return kInfinite;
    sum += least;
  }
  for (std::size_t e = 0; e < problem_.edges.size(); ++e) {
    const EdgeTable& table = *problem_.edges[e].table;
    const std::size_t row = ends_[2 * e].message;
    const std::size_t col = ends_[2 * e + 1].message;
    std::int64_t least = kInfinite;
    for (std::int32_t r = 0; r < table.num_row_classes; ++r) {
      if (class_alive_[row + r] == 0) continue;
      const std::int64_t* line =
          table.cost.data() + std::int64_t{r} * table.num_col_classes;
      for (std::int32_t c = 0; c < table.num_col_classes; ++c) {
        if (line[c] >= kInfinite || class_alive_[col + c] == 0) continue;
        least =
            std::min(least, line[c] * scale_ - whole[row + r] - whole[col + c]);
      }
    }
    if (least == kInfinite) return kInfinite;
    sum += least;
  }
  constexpr Wide kLowest = -Wide(kForbidden);
  if (sum >= kForbidden) return kForbidden - 1;  // a bound all the same
  return static_cast<std::int64_t>(std::max(sum, kLowest));
}

std::int64_t DualAscent::raise(std::span<const std::int64_t> node_cost,
                               const Effort& effort) {
  load(node_cost);
  double before = -kDead;
  for (int n = 0; n < effort.sweeps; ++n) {
    if (!sweep(true) || !sweep(false)) return kInfinite;
    if (budget_->spent()) break;
    if (n % kBatch != kBatch - 1) continue;
    const double now = bound_now();
    if (now >= effort.cutoff || now - before < effort.least_gain) break;
    before = now;
  }
  budget_->charge(num_cells_);
  return exact_bound();
}

bool DualAscent::decode(std::vector<std::int32_t>* choice) {
  Domains domains(problem_, budget_);
  const std::int32_t count = index_.num_nodes();
  choice->assign(count, -1);
  std::vector<std::pair<double, std::int32_t>> ranked;
  for (std::int32_t i = 0; i < count; ++i) {
    ranked.clear();
    for (std::int32_t k = 0; k < index_.size(i); ++k) {
      double value = cost_[index_.first[i] + k];
      for (std::int32_t n = first_end_[i];
           n < first_end_[i + 1] && value < kDeadOrMore; ++n) {
        const End& end = ends_[ends_of_[n]];
        const std::int32_t mine = end.class_of[k];
        if ((*choice)[end.other] < 0) {
          value += messages_[end.message + mine];
          continue;
        }
        const End& other = ends_[ends_of_[n] ^ 1];
        const std::int32_t theirs = other.class_of[(*choice)[end.other]];
        value +=
            tables_[end.table][std::size_t(theirs) * end.num_classes + mine];
      }
      if (value < kDeadOrMore) ranked.emplace_back(value, k);
    }
    budget_->charge(std::int64_t{index_.size(i)} *
                    (first_end_[i + 1] - first_end_[i] + 1));
    std::sort(ranked.begin(), ranked.end());
    for (const auto& [value, k] : ranked) {
      if (!domains.fix(i, k)) continue;
      (*choice)[i] = k;
      break;
    }
    if ((*choice)[i] < 0) return false;
  }
  return true;
}

void DualAscent::best_by_node(std::vector<std::int32_t>* choice) const {
  choice->clear();
  for (std::int32_t i = 0; i < index_.num_nodes(); ++i) {
    std::int32_t best = 0;
    double least = kDead;
    for (std::int32_t k = 0; k < index_.size(i); ++k) {
      double theta = cost_[index_.first[i] + k];
      for (std::int32_t n = first_end_[i]; n < first_end_[i + 1]; ++n) {
        const End& end = ends_[ends_of_[n]];
        theta += messages_[end.message + end.class_of[k]];
      }
      if (theta >= least) continue;
      least = theta;
      best = k;
    }
    choice->push_back(best);
  }
}

bool DualAscent::choice_bounds(std::vector<std::int64_t>* bounds) {
  bounds->assign(index_.total(), -kInfinite);
  // Afterwards all edges have nothing left to give, and the sum of the nodes'
  // lowest costs is a bound at any moment of the sweeps that follow.
  if (!sweep(true) || !sweep(false)) return false;
  const std::int32_t count = index_.num_nodes();
  Wide total = 0;
  for (const double lowest : lowest_) total += static_cast<Wide>(lowest);
  bool exact = true;
  for (const bool forward : {true, false}) {
    for (std::int32_t n = 0; n < count; ++n) {
      const std::int32_t node = forward ? n : count - 1 - n;
      total -= static_cast<Wide>(lowest_[node]);
      if (!collect(node)) return false;
      total += static_cast<Wide>(lowest_[node]);
      exact = exact && sums_are_exact(node);
      for (std::int32_t k = 0; k < index_.size(node); ++k) {
        std::int64_t& bound = (*bounds)[index_.first[node] + k];
        if (theta_[k] >= kDeadOrMore) {
          bound = kInfinite;
          continue;
        }
        const Wide value = total + static_cast<Wide>(theta_[k] - lowest_[node]);
        bound = std::max(bound, static_cast<std::int64_t>(std::clamp<Wide>(
                                    value, -kForbidden, kForbidden - 1)));
      }
      distribute(node, forward);
    }
  }
  budget_->charge(std::exchange(work_, 0) + 4 * index_.total());
  return exact;
}

// Sums of whole numbers in doubles are exact while they are small: the node's
// own costs (prices on memory can make them large) and what edges gave.
bool DualAscent::sums_are_exact(std::int32_t node) const {
  double most = 0;
  for (std::int32_t k = 0; k < index_.size(node); ++k) {
    const double cost = std::abs(cost_[index_.first[node] + k]);
    if (cost < kDeadOrMore) most = std::max(most, cost);
  }
  for (std::int32_t n = first_end_[node]; n < first_end_[node + 1]; ++n) {
    const End& end = ends_[ends_of_[n]];
    double largest = 0;
    for (std::int32_t c = 0; c < end.num_classes; ++c) {
      largest = std::max(largest, std::abs(messages_[end.message + c]));
    }
    most += largest;
  }
  return most < kExactIntegers / 4;
}

DualAscent::Messages DualAscent::messages() const { return sent_; }

void DualAscent::set_messages(const Messages& messages) {
  sent_ = messages;
  std::fill(stale_.begin(), stale_.end(), std::uint8_t{1});
  for (std::vector<std::uint8_t>& changed : changed_) {
    std::fill(changed.begin(), changed.end(), std::uint8_t{1});
  }
}

}  // namespace shardwright::solver::internal
