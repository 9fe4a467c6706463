#include "shardwright/solver/label_search.h"

#include <algorithm>
#include <numeric>

#include "shardwright/base/check.h"
#include "shardwright/solver/elimination_sweep.h"

namespace shardwright::solver::internal {
namespace {

// Labels of one list: numbers of label n are at n * width.
struct Labels {
  std::size_t num_rows = 0;
  // Per label: cost, priced value, bytes by row.
  std::vector<std::int64_t> numbers;
  std::vector<std::int32_t> origin;  // what it was made from

  std::size_t width() const { return num_rows + 2; }
  std::size_t size() const { return origin.size(); }
  const std::int64_t* at(std::size_t n) const {
    return numbers.data() + n * width();
  }
  void clear() {
    numbers.clear();
    origin.clear();
  }
};

// Label = one choice of a node, or two labels together.
struct Origin {
  std::int32_t left = -1;   // -1: a choice
  std::int32_t right = -1;  // label, or the node
  std::int32_t choice = -1;
};

// Sorts by cost and drops what another label beats or equals in cost and in the
// bytes of every row.
class Pareto {
 public:
  void reduce(Labels* labels, Budget* budget) {
    order_.resize(labels->size());
    std::iota(order_.begin(), order_.end(), 0);
    const std::size_t width = labels->width();
    const auto less = [&](std::int32_t l, std::int32_t r) {
      const std::int64_t* left = labels->at(l);
      const std::int64_t* right = labels->at(r);
      if (left[0] != right[0]) return left[0] < right[0];
      return std::lexicographical_compare(left + 2, left + width, right + 2,
                                          right + width);
    };
    std::sort(order_.begin(), order_.end(), less);
    kept_.num_rows = labels->num_rows;
    kept_.clear();
    std::int64_t least = kInfinite;
    std::int64_t work = 0;
    for (const std::int32_t n : order_) {
      const std::int64_t* label = labels->at(n);
      if (labels->num_rows == 1) {
        if (label[2] >= least) continue;
        least = label[2];
      } else if (labels->num_rows == 0) {
        if (kept_.size() > 0) continue;
      } else if (is_beaten(label, &work)) {
        continue;
      }
      kept_.numbers.insert(kept_.numbers.end(), label, label + width);
      kept_.origin.push_back(labels->origin[n]);
    }
    budget->charge(static_cast<std::int64_t>(order_.size()) * 8 + work);
    std::swap(kept_, *labels);
  }

 private:
  // By one of the labels kept so far, which are no dearer.
  bool is_beaten(const std::int64_t* label, std::int64_t* work) const {
    const std::size_t width = kept_.width();
    // The latest are the likeliest: their cost is close.
    for (std::size_t n = kept_.size(); n-- > 0;) {
      const std::int64_t* other = kept_.at(n);
      ++*work;
      std::size_t r = 2;
      while (r < width && other[r] <= label[r]) ++r;
      if (r == width) return true;
    }
    return false;
  }

  std::vector<std::int32_t> order_;
  Labels kept_;
};

}  // namespace

class LabelSearch {
 public:
  LabelSearch(Elimination* elimination, const LabelTask& task, Budget* budget)
      : all_(*elimination), task_(task), budget_(budget) {}

  LabelResult run() {
    LabelResult result;
    if (!all_.outside_values(task_.priced_cost, &outside_, budget_)) {
      return result;
    }
    cells_.resize(all_.buckets_.size());
    Labels total = empty();
    total.numbers.assign(total.width(), 0);
    total.origin = {-1};
    std::int64_t rest = 0;
    for (const auto& bucket : all_.buckets_) {
      if (bucket.dims.empty()) rest += all_.table(bucket.table)[0];
    }
    for (std::size_t id = 0; id < all_.buckets_.size(); ++id) {
      if (!fill(static_cast<std::int32_t>(id))) return result;
      const auto& bucket = all_.buckets_[id];
      if (!bucket.dims.empty()) continue;
      rest -= all_.table(bucket.table)[0];
      if (!join(&total, cells_[id][0], rest)) return result;
    }
    result.finished = true;
    for (std::size_t n = 0; n < total.size(); ++n) {
      const std::int64_t* label = total.at(n);
      if (label[0] >= result.cost || !fits(label)) continue;
      result.cost = label[0];
      read(total.origin[n], &result.choice);
    }
    return result;
  }

 private:
  Labels empty() const {
    Labels out;
    out.num_rows = task_.bytes.size();
    return out;
  }

  bool fits(const std::int64_t* label) const {
    for (std::size_t r = 0; r < task_.bytes.size(); ++r) {
      if (label[2 + r] > task_.limit) return false;
    }
    return true;
  }

  std::int32_t add_origin(std::int32_t left, std::int32_t right,
                          std::int32_t choice) {
    origins_.push_back({left, right, choice});
    return static_cast<std::int32_t>(origins_.size()) - 1;
  }

  // Every pair of a label here and one of `more` that may lead to a plan below
  // the cutoff; `rest` is the least value of all that is in neither.
  bool join(Labels* labels, const Labels& more, std::int64_t rest) {
    const std::size_t width = labels->width();
    Labels out = empty();
    for (std::size_t n = 0; n < labels->size(); ++n) {
      const std::int64_t* left = labels->at(n);
      for (std::size_t m = 0; m < more.size(); ++m) {
        const std::int64_t* right = more.at(m);
        if (left[1] + right[1] + rest > task_.most_value) continue;
        for (std::size_t r = 0; r < width; ++r) {
          out.numbers.push_back(left[r] + right[r]);
        }
        out.origin.push_back(
            labels->origin[n] < 0
                ? more.origin[m]
                : add_origin(labels->origin[n], more.origin[m], -1));
      }
      if (!may_go_on(out.size())) return false;
    }
    budget_->charge(static_cast<std::int64_t>(labels->size() * more.size()));
    if (out.size() > 1) pareto_.reduce(&out, budget_);
    std::swap(out, *labels);
    return true;
  }

  bool may_go_on(std::size_t more) const {
    return !budget_->spent() && static_cast<std::int64_t>(
                                    origins_.size() + more) < task_.most_labels;
  }

  // The labels of every cell of a bucket.
  bool fill(std::int32_t id) {
    const Elimination::Bucket& bucket = all_.buckets_[id];
    std::vector<Labels>& cells = cells_[id];
    cells.assign(static_cast<std::size_t>(bucket.num_cells), empty());
    choices_.assign(bucket.num_signatures, {});
    const std::int32_t first = all_.index_.first[bucket.node];
    for (std::size_t k = 0; k < bucket.signature_of.size(); ++k) {
      if (task_.priced_cost[first + k] >= kForbidden) continue;
      choices_[bucket.signature_of[k]].push_back(static_cast<std::int32_t>(k));
    }
    all_.signature_costs(bucket, task_.priced_cost);
    Elimination::Sweep sweep(all_, bucket);
    bool good = true;
    const std::size_t depth = bucket.dims.size();
    sweep.template walk<false>([&](std::int64_t cell) {
      const std::int64_t rest = outside_[id][cell];
      if (rest >= kForbidden) return;
      for (const auto& entry : sweep.list[depth + 1]) {
        if (!good || entry.value + rest > task_.most_value) continue;
        good = expand(bucket, sweep.base, entry.signature, rest, &cells[cell]);
      }
      if (good && cells[cell].size() > 1) {
        pareto_.reduce(&cells[cell], budget_);
      }
    });
    budget_->charge(sweep.work + bucket.num_cells);
    // Labels of cells below are joined into these.
    for (const auto& input : bucket.inputs) {
      if (input.source >= 0) cells_[input.source] = {};
    }
    return good;
  }

  // Adds the labels of one signature to those of its cell.
  bool expand(const Elimination::Bucket& bucket,
              const std::vector<std::int64_t>& base, std::int32_t signature,
              std::int64_t rest, Labels* into) {
    const std::int32_t first = all_.index_.first[bucket.node];
    std::int64_t edges = 0;
    std::int64_t below = 0;  // least values of the buckets that are read
    std::vector<const Labels*>& sources = sources_;
    sources.clear();
    least_.clear();
    for (std::size_t i = 0; i < bucket.inputs.size(); ++i) {
      const auto& input = bucket.inputs[i];
      const std::int64_t at = base[i] + input.of_signature[signature];
      const std::int64_t least = all_.table(input.table)[at];
      if (input.source < 0) {
        edges += least;
        continue;
      }
      below += least;
      least_.push_back(least);
      sources.push_back(&cells_[input.source][at]);
    }
    Labels labels = empty();
    for (const std::int32_t k : choices_[signature]) {
      const std::int64_t priced = task_.priced_cost[first + k] + edges;
      if (priced + below + rest > task_.most_value) continue;
      labels.numbers.push_back(task_.cost[first + k] + edges);
      labels.numbers.push_back(priced);
      for (const auto& row : task_.bytes) {
        labels.numbers.push_back(row[first + k]);
      }
      labels.origin.push_back(add_origin(-1, bucket.node, k));
    }
    for (std::size_t i = 0; i < sources.size(); ++i) {
      below -= least_[i];
      if (!join(&labels, *sources[i], below + rest)) return false;
    }
    into->numbers.insert(into->numbers.end(), labels.numbers.begin(),
                         labels.numbers.end());
    into->origin.insert(into->origin.end(), labels.origin.begin(),
                        labels.origin.end());
    return may_go_on(0);
  }

  void read(std::int32_t origin, std::vector<std::int32_t>* choice) const {
    choice->assign(all_.index_.num_nodes(), 0);
    std::vector<std::int32_t> open = {origin};
    while (!open.empty()) {
      const std::int32_t id = open.back();
      open.pop_back();
      if (id < 0) continue;  // a problem without nodes
      const Origin& from = origins_[id];
      if (from.left < 0) {
        (*choice)[from.right] = from.choice;
      } else {
        open.push_back(from.left);
        open.push_back(from.right);
      }
    }
  }

  Elimination& all_;
  const LabelTask& task_;
  Budget* budget_;
  std::vector<std::vector<std::int64_t>> outside_;  // [bucket][cell]
  std::vector<std::vector<Labels>> cells_;          // [bucket][cell]
  std::vector<std::vector<std::int32_t>> choices_;  // by signature
  std::vector<const Labels*> sources_;
  std::vector<std::int64_t> least_;
  std::vector<Origin> origins_;
  Pareto pareto_;
};

LabelResult search_labels(Elimination* elimination, const LabelTask& task,
                          Budget* budget) {
  SW_CHECK(elimination->fits(), "[solver] labels need elimination");
  return LabelSearch(elimination, task, budget).run();
}

}  // namespace shardwright::solver::internal
