#include "shardwright/planner/passes/value_choices.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "shardwright/planner/passes/price.h"

namespace shardwright::planner {
namespace {

using sharding::Port;

std::int32_t bit(bool b) { return b ? 1 : 0; }

std::int32_t axes_that_differ(const Port& a, const Port& b) {
  std::int32_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) count += a[i] == b[i] ? 0 : 1;
  return count;
}

// Along one axis: the original whole and the copy split, or the original split
// and the copy gathered, or both whole with gradients complete and partial.
// Beside a partial sum no reader keeps the sum, and two ways to split one
// tensor are not held at a time.
bool may_mix(const sharding::Symbol& original, const sharding::Symbol& copy) {
  using Kind = sharding::Symbol::Kind;
  if (original == copy) return true;
  if (original.kind == Kind::kReplicate) return copy.kind != Kind::kPartial;
  return original.kind == Kind::kShard &&
         (copy.kind == Kind::kReplicate || copy.kind == Kind::kPartialGradient);
}

class ChoiceWriter {
 public:
  ChoiceWriter(const ValueContext& context, std::vector<ProducerSide> sides)
      : c_(context), sides_(std::move(sides)) {
    for (const Reader& reader : c_.readers) {
      ports_of_reader_.push_back(reader_ports(*c_.model, reader));
    }
    if (c_.is_output) {  // reads it as produced, whatever that is
      std::set<Port> produced;
      for (const ProducerSide& side : sides_) produced.insert(side.port);
      ports_of_reader_.emplace_back(produced.begin(), produced.end());
    }
    std::set<Port> layouts;
    if (c_.is_loss) layouts.insert(replicated(*c_.model));
    if (!c_.is_loss) {
      for (const auto& ports : ports_of_reader_) {
        layouts.insert(ports.begin(), ports.end());
      }
    }
    layouts_.assign(layouts.begin(), layouts.end());
    find_ways();
  }

  void add_all() {
    for (const Port& layout : layouts_) {
      if (all_take(layout, layout)) add_single(layout);
    }
    if (!mixing_helps()) return;
    for (const ProducerSide& side : sides_) {
      for (const Port& layout : layouts_) {
        if (can_mix(side.port, layout)) add_mixed(side, layout);
      }
    }
  }

  // Ports match and regions agree; the time of the conversion.
  void add_producer_edge(const std::vector<OpChoice>& op_choices,
                         EdgeTables& tables) {
    // A row is the place of a side in `sides_`.
    const Classes rows = classify(op_choices, [&](const OpChoice& choice) {
      const auto side =
          std::lower_bound(sides_.begin(), sides_.end(), side_of(c_, choice));
      return Signature{static_cast<std::int32_t>(side - sides_.begin())};
    });
    const Classes columns =
        classify(out.choices, [&](const ValueChoice& choice) {
          return column(choice, tables.ports);
        });
    std::map<Signature, const ValueChoice*> choice_of_column;
    for (std::size_t k = 0; k < out.choices.size(); ++k) {
      choice_of_column.try_emplace(
          columns.signatures[static_cast<std::size_t>(columns.class_of[k])],
          &out.choices[k]);
    }
    std::vector<std::int64_t> costs;
    for (const Signature& row : rows.signatures) {
      const auto s = static_cast<std::size_t>(row.front());
      for (const Signature& line : columns.signatures) {
        costs.push_back(
            edge_cost(sides_[s], ways_[s], *choice_of_column.at(line)));
      }
    }
    out.producer_edge = EdgeTables::table_of(rows, columns, std::move(costs));
  }

  ValueTemplate out;

 private:
  using Ways = std::vector<std::optional<PricedPassage>>;

  [[nodiscard]] std::int64_t edge_cost(const ProducerSide& side,
                                       const Ways& ways,
                                       const ValueChoice& choice) const {
    if (choice.mixed) {
      const bool fits = side.port == choice.produced &&
                        side.recompute == choice.produced_recompute &&
                        side.saves == choice.produced_saves;
      return fits ? 0 : solver::kInfinite;
    }
    const auto& way = ways[way_index(
        choice.layout, choice.passage.copies && choice.passage.recompute)];
    return way && way->passage == choice.passage ? way->cost
                                                 : solver::kInfinite;
  }

  [[nodiscard]] std::size_t way_index(const Port& layout,
                                      bool copy_recompute) const {
    const auto at = std::lower_bound(layouts_.begin(), layouts_.end(), layout) -
                    layouts_.begin();
    return static_cast<std::size_t>(at) * 2 + (copy_recompute ? 1 : 0);
  }

  void find_ways() {
    for (const ProducerSide& side : sides_) {
      ways_.emplace_back();
      for (const Port& layout : layouts_) {
        for (const bool again : {false, true}) {
          ways_.back().push_back(passage_of(c_, side, layout, again));
        }
      }
    }
    if (c_.model->is_small[c_.id.index()]) coarsen();
  }

  // Small values: what passages to one layout keep for a moment is taken at its
  // largest, which leaves a few passages instead of one per producer's layout.
  void coarsen() {
    for (std::size_t w = 0; w < layouts_.size() * 2; ++w) {
      std::map<std::array<bool, 4>, Passage> largest;
      const auto same = [](const Passage& p) {
        return std::array<bool, 4>{p.copies, p.converts_gradient, p.recompute,
                                   p.saves};
      };
      for (const Ways& ways : ways_) {
        if (!ways[w]) continue;
        const Passage& p = ways[w]->passage;
        Passage& all = largest.try_emplace(same(p), p).first->second;
        all.forward_temporary =
            std::max(all.forward_temporary, p.forward_temporary);
        all.backward_temporary =
            std::max(all.backward_temporary, p.backward_temporary);
        all.held = std::max(all.held, p.held);
        all.contribution = std::max(all.contribution, p.contribution);
      }
      for (Ways& ways : ways_) {
        if (ways[w]) ways[w]->passage = largest.at(same(ways[w]->passage));
      }
    }
  }

  static Signature column(const ValueChoice& choice, PortIds& ports) {
    if (choice.mixed) {
      return {1, ports.of(choice.produced), bit(choice.produced_recompute),
              bit(choice.produced_saves)};
    }
    const Passage& p = choice.passage;
    Signature line = {0,
                      ports.of(choice.layout),
                      bit(p.copies),
                      bit(p.converts_gradient),
                      bit(p.recompute),
                      bit(p.saves)};
    for (const std::int64_t bytes :
         {p.forward_temporary, p.backward_temporary, p.held, p.contribution}) {
      line.push_back(static_cast<std::int32_t>(bytes >> 32));
      line.push_back(static_cast<std::int32_t>(bytes & 0xffffffff));
    }
    return line;
  }

  [[nodiscard]] std::vector<bool> fates(std::int32_t region) const {
    return region < 0 ? std::vector<bool>{false}
                      : std::vector<bool>{false, true};
  }

  // The life of the value as produced does not hang on this copy's readers.
  [[nodiscard]] bool original_fixed() const {
    return !c_.owns_bytes || c_.several;
  }

  void push(const ValueChoice& choice, std::int64_t cost) {
    out.choices.push_back(choice);
    out.cost.push_back(cost);
  }

  void add_single(const Port& layout) {
    std::map<Passage, std::int64_t> passages;
    for (const Ways& ways : ways_) {
      for (const bool again : fates(c_.converted.home_region)) {
        const auto& way = ways[way_index(layout, again)];
        if (way) passages.emplace(way->passage, way->cost);
      }
    }
    for (const auto& [passage, cost] : passages) {
      ValueChoice choice;
      choice.layout = layout;
      choice.passage = passage;
      const bool fixed = !passage.copies && original_fixed();
      for (const Need& need :
           needs_allowed(passage.copies ? c_.converted : c_.produced, fixed)) {
        choice.need = need;
        // A source has one layout, so its conversion is this node's own.
        push(choice, c_.value->producer.valid() ? 0 : cost);
      }
    }
  }

  // Every reader takes one of the two layouts.
  [[nodiscard]] bool all_take(const Port& a, const Port& b) const {
    return std::all_of(ports_of_reader_.begin(), ports_of_reader_.end(),
                       [&](const std::vector<Port>& ports) {
                         return takes(ports, a) || takes(ports, b);
                       });
  }

  static bool takes(const std::vector<Port>& ports, const Port& port) {
    return std::binary_search(ports.begin(), ports.end(), port);
  }

  // Readers that go through a tensor element by element have no reason to want
  // different layouts: what follows them is converted behind them. One that
  // sums over a dim, or takes one layout only, may.
  [[nodiscard]] bool mixing_helps() const {
    if (c_.is_loss || ports_of_reader_.size() < 2) return false;
    if (!c_.value->producer.valid()) return true;
    for (const std::vector<Port>& ports : ports_of_reader_) {
      if (ports.size() == 1) return true;
    }
    return std::any_of(c_.readers.begin(), c_.readers.end(),
                       [&](const Reader& reader) {
                         return c_.model->class_of(reader.op).contracts;
                       });
  }

  // One reader can take the value as produced and another the copy. Beside a
  // value that is computed, a copy differs along one mesh axis: else all
  // readers share a layout that all can take.
  [[nodiscard]] bool can_mix(const Port& produced, const Port& layout) const {
    if (produced == layout || !all_take(produced, layout)) return false;
    if (c_.value->producer.valid() && axes_that_differ(produced, layout) > 1) {
      return false;
    }
    for (std::size_t axis = 0; axis < produced.size(); ++axis) {
      if (!may_mix(produced[axis], layout[axis])) return false;
    }
    for (std::size_t i = 0; i < ports_of_reader_.size(); ++i) {
      if (!takes(ports_of_reader_[i], produced)) continue;
      for (std::size_t j = 0; j < ports_of_reader_.size(); ++j) {
        const bool only_original =
            c_.is_output && j + 1 == ports_of_reader_.size();
        if (i != j && !only_original && takes(ports_of_reader_[j], layout)) {
          return true;
        }
      }
    }
    return false;
  }

  void add_mixed(const ProducerSide& side, const Port& layout) {
    const PortConversion& conversion =
        convert_port(*c_.model, c_.id, side.port, layout);
    if (!conversion.possible) return;
    ValueChoice choice;
    choice.mixed = true;
    choice.layout = layout;
    choice.produced = side.port;
    choice.produced_recompute = side.recompute;
    choice.produced_saves = side.saves;
    choice.passage.copies = !conversion.forward_identity();
    choice.passage.converts_gradient = !conversion.backward_identity();
    choice.passage.forward_temporary = conversion.forward_temporary;
    choice.passage.backward_temporary = conversion.backward_temporary;
    choice.passage.contribution = contribution_of(c_, side);
    for (const bool again : fates(c_.converted.home_region)) {
      if (!c_.crosses() && again != side.recompute) continue;
      choice.passage.recompute = again;
      const bool twice = choice.passage.copies && again &&
                         runs_again(*c_.model, c_.convert_slot);
      add_mixed_needs(choice, conversion.forward_cost * (twice ? 2 : 1) +
                                  conversion.backward_cost);
    }
  }

  // Converting inside a recomputed region reads the original there, as any
  // reader would.
  void add_mixed_needs(ValueChoice choice, std::int64_t cost) {
    const bool held = c_.crosses() && choice.passage.recompute;
    for (const Need& need : needs_allowed(c_.produced, original_fixed())) {
      if (held && need.external < 2 && c_.owns_bytes) continue;
      choice.produced_need = need;
      for (const Need& later :
           needs_allowed(c_.converted, !choice.passage.copies)) {
        choice.need = later;
        push(choice, cost);
      }
    }
  }

  const ValueContext& c_;
  std::vector<ProducerSide> sides_;
  std::vector<std::vector<Port>> ports_of_reader_;  // sorted each
  std::vector<Port> layouts_;                       // sorted
  std::vector<Ways> ways_;                          // per side
};

void add_needs(const Life& life, bool fixed, Signature& key) {
  for (const Need& need : needs_allowed(life, fixed)) {
    key.push_back(need.external * 2 + bit(need.internal));
  }
  key.push_back(-1);
}

}  // namespace

// Everything the writer looks at.
Signature ValueTemplates::key_of(const ValueContext& c) {
  const Model& model = *c.model;
  const bool again = c.convert_slot >= 0 && runs_again(model, c.convert_slot);
  Signature key = {model.price_class[c.id.index()],
                   bit(model.is_small[c.id.index()]),
                   bit(c.crosses()),
                   bit(c.is_output),
                   bit(c.is_loss),
                   bit(c.owns_bytes),
                   bit(again),
                   bit(c.several),
                   bit(c.produced.home_region >= 0),
                   bit(c.converted.home_region >= 0)};
  add_needs(c.produced, !c.owns_bytes, key);
  add_needs(c.produced, true, key);
  add_needs(c.converted, false, key);
  if (c.value->producer.valid()) {
    Signature list = {model.class_of_op[c.value->producer.index()]};
    for (const OpChoice& choice :
         problem_.op_choices[c.value->producer.index()]) {
      list.push_back(choice.priced * 2 + bit(choice.recompute));
    }
    const auto [entry, fresh] = op_choices_.try_emplace(
        std::move(list), static_cast<std::int32_t>(op_choices_.size()));
    key.push_back(entry->second);
    key.push_back(c.value->result_index);
  }
  for (const Reader& reader : c.readers) {
    key.push_back(-2 - model.class_of_op[reader.op.index()]);
    key.insert(key.end(), reader.operands.begin(), reader.operands.end());
  }
  return key;
}

const ValueTemplate& ValueTemplates::find(const ValueContext& c) {
  const auto [entry, fresh] = known_.try_emplace(key_of(c));
  if (!fresh) return entry->second;
  ChoiceWriter writer(c, producer_sides(c, problem_));
  writer.add_all();
  if (c.value->producer.valid()) {
    writer.add_producer_edge(problem_.op_choices[c.value->producer.index()],
                             tables_);
  }
  entry->second = std::move(writer.out);
  return entry->second;
}

}  // namespace shardwright::planner
