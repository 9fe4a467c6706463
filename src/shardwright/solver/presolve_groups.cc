// Contraction of whole groups: all nodes that one-to-one edges tie to each
// other, directly or through others, become one node in one step. Taken one
// after the other they would copy what was merged so far each time, and groups
// of ten thousand nodes are common (a sharding that follows from its input's).
#include <algorithm>
#include <utility>

#include "shardwright/solver/presolve_rules.h"

namespace shardwright::solver::internal {
namespace {

class Group {
 public:
  Group(Work* work, std::int32_t root) : work_(*work), root_(root) {
    const std::int32_t count = work_.nodes[root].shape->num_choices();
    List own(count);
    for (std::int32_t k = 0; k < count; ++k) own[k] = k;
    add(root, std::move(own));
    for (std::size_t m = 0; m < members_.size(); ++m) follow(m);
  }
  ~Group() {
    for (const std::int32_t node : members_) work_.place_in_group[node] = -1;
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  std::size_t size() const { return members_.size(); }

  void merge() {
    cost_.assign(replies_[0].size(), 0);
    dead_.assign(replies_[0].size(), false);
    List outside;
    for (std::size_t m = 0; m < members_.size(); ++m) take_edges(m, &outside);
    Shape shape = sum_of_shapes();
    SettingsPtr settings = join_settings();
    List members;
    for (const std::int32_t node : members_) {
      const List& more = work_.nodes[node].members;
      members.insert(members.end(), more.begin(), more.end());
      if (node == root_) continue;
      work_.nodes[node] = WorkNode{};
      work_.nodes[node].alive = false;
    }
    WorkNode& root = work_.nodes[root_];
    root.members = std::move(members);
    root.settings = std::move(settings);
    root.positions = std::move(ends_);
    root.edges = std::move(outside);
    work_.set_shape(root_, work_.catalogue.shape(std::move(shape)));
    work_.contracted += static_cast<std::int64_t>(size()) - 1;
    work_.touch(root_);
    List kept;
    for (std::size_t k = 0; k < dead_.size(); ++k) {
      if (!dead_[k]) kept.push_back(static_cast<std::int32_t>(k));
    }
    if (kept.size() == dead_.size()) return;
    work_.keep_choices(root_, work_.catalogue.indices(std::move(kept)));
  }

 private:
  void add(std::int32_t node, List reply) {
    work_.place_in_group[node] = static_cast<std::int32_t>(members_.size());
    members_.push_back(node);
    replies_.push_back(std::move(reply));
  }

  // Nodes at the far ends of the member's one-to-one edges.
  void follow(std::size_t m) {
    const std::int32_t node = members_[m];
    for (const std::int32_t e : work_.nodes[node].edges) {
      const WorkEdge& edge = work_.edges[e];
      const std::int32_t other = edge.other(node);
      if (work_.place_in_group[other] >= 0) continue;
      bool one_to_one = false;
      const IndicesPtr reply =
          work_.catalogue.reply(edge.table, edge.end_at(node), &one_to_one);
      if (reply == nullptr || !one_to_one) continue;
      List through;
      through.reserve(replies_[m].size());
      for (const std::int32_t k : replies_[m]) {
        through.push_back(reply->values[k]);
      }
      add(other, std::move(through));
    }
  }

  // Edges inside become costs, the others move to the root.
  void take_edges(std::size_t m, List* outside) {
    const std::int32_t node = members_[m];
    for (const std::int32_t e : work_.nodes[node].edges) {
      WorkEdge& edge = work_.edges[e];
      if (!edge.alive()) continue;  // inside, seen from its other end
      const int end = edge.end_at(node);
      const std::int32_t other = work_.place_in_group[edge.other(node)];
      if (other >= 0) {
        add_costs(*edge.table->ends[end], replies_[m], replies_[other]);
        edge.table = nullptr;
        continue;
      }
      if (node != root_) {
        edge.table = work_.catalogue.gather(
            edge.table, end, work_.catalogue.indices(replies_[m]));
        (end == 0 ? edge.a : edge.b) = root_;
      }
      work_.touch(edge.other(root_));
      outside->push_back(e);
    }
  }

  void add_costs(const EdgeTable& table, const List& rows, const List& cols) {
    for (std::size_t k = 0; k < rows.size(); ++k) {
      const std::int64_t cost = table.at(rows[k], cols[k]);
      if (cost >= kInfinite) {
        dead_[k] = true;
      } else {
        cost_[k] += cost;
      }
    }
  }

  // Fills ends_. Every choice gets a line of its own; equal ones are merged by
  // the catalogue.
  Shape sum_of_shapes() {
    ends_.clear();
    for (const std::int32_t node : members_) {
      const List& more = work_.nodes[node].positions;
      ends_.insert(ends_.end(), more.begin(), more.end());
    }
    std::sort(ends_.begin(), ends_.end());
    ends_.erase(std::unique(ends_.begin(), ends_.end()), ends_.end());
    Shape out;
    const std::size_t count = replies_[0].size();
    const std::size_t width = ends_.empty() ? 0 : ends_.size() - 1;
    out.cost = cost_;
    out.num_lines = static_cast<std::int32_t>(count);
    out.num_segments = static_cast<std::int32_t>(width);
    out.bytes.assign(count * width, 0);  // changes first, then sums
    for (std::size_t m = 0; m < members_.size(); ++m) add_shape(m, &out);
    for (std::size_t k = 0; k < count; ++k) {
      out.line.push_back(static_cast<std::int32_t>(k));
      std::int64_t* line = out.bytes.data() + k * width;
      for (std::size_t s = 1; s < width; ++s) line[s] += line[s - 1];
    }
    return out;
  }

  void add_shape(std::size_t m, Shape* out) {
    const WorkNode& node = work_.nodes[members_[m]];
    const Shape& shape = *node.shape;
    const auto width = static_cast<std::size_t>(out->num_segments);
    places_.clear();
    for (const std::int32_t p : node.positions) {
      places_.push_back(static_cast<std::size_t>(
          std::lower_bound(ends_.begin(), ends_.end(), p) - ends_.begin()));
    }
    for (std::size_t k = 0; k < replies_[m].size(); ++k) {
      out->cost[k] += shape.cost[replies_[m][k]];
      const std::int64_t* bytes = shape.bytes_of(replies_[m][k]);
      std::int64_t* line = out->bytes.data() + k * width;
      for (std::int32_t s = 0; s < shape.num_segments; ++s) {
        line[places_[s]] += bytes[s];
        if (places_[s + 1] < width) line[places_[s + 1]] -= bytes[s];
      }
    }
  }

  SettingsPtr join_settings() {
    std::int32_t wide = 0;
    for (const std::int32_t node : members_) {
      wide += work_.nodes[node].settings->num_members;
    }
    List values;
    values.reserve(replies_[0].size() * static_cast<std::size_t>(wide));
    for (std::size_t k = 0; k < replies_[0].size(); ++k) {
      for (std::size_t m = 0; m < members_.size(); ++m) {
        const Settings& own = *work_.nodes[members_[m]].settings;
        const auto at = own.values.begin() +
                        std::ptrdiff_t{replies_[m][k]} * own.num_members;
        values.insert(values.end(), at, at + own.num_members);
      }
    }
    return work_.catalogue.settings(wide, std::move(values));
  }

  Work& work_;
  std::int32_t root_;
  List members_;               // the root first
  std::vector<List> replies_;  // per member, for each choice of the root
  std::vector<std::int64_t> cost_;
  std::vector<bool> dead_;
  List ends_;
  std::vector<std::size_t> places_;
};

}  // namespace

bool contract_group(Work* work, std::int32_t root) {
  Group group(work, root);
  if (group.size() < 2) return false;
  group.merge();
  return true;
}

}  // namespace shardwright::solver::internal
