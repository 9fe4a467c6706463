#include "shardwright/planner/passes/passage.h"

#include <algorithm>
#include <set>

namespace shardwright::planner {
namespace {

using sharding::Port;

// A value read by one view only is converted behind the view, where the same
// bytes move, unless the view cannot take it as it is.
bool view_takes(const ValueContext& c, const Port& produced) {
  const auto& readers = c.readers;
  if (readers.size() != 1 || c.is_loss || c.is_output) return false;
  const Reader& reader = readers.front();
  const OpClass& op_class = c.model->class_of(reader.op);
  const bool view =
      std::find(op_class.result_alias.begin(), op_class.result_alias.end(),
                reader.operands.front()) != op_class.result_alias.end();
  if (!view) return false;
  const std::vector<Port>& ports = reader_ports(*c.model, reader);
  return std::binary_search(ports.begin(), ports.end(), produced);
}

// Bytes of the value as produced that a recomputed region holds as its input,
// though only the conversion inside it reads them.
std::int64_t held_bytes(const ValueContext& c, const ProducerSide& side) {
  const bool kept_anyway = side.saves && !side.recompute;
  if (!c.owns_bytes || c.several || kept_anyway) return 0;
  return port_bytes(*c.model, c.id, side.port);
}

// The training loop keeps the loss to the end of the step. Its storage may be
// larger than one number: some losses keep the unreduced buffer.
std::int64_t loss_bytes(const ValueContext& c, const ProducerSide& side) {
  const std::int64_t view = port_bytes(*c.model, c.id, side.port);
  if (!c.owns_bytes) return view;
  const OpClass& producer = c.model->class_of(c.value->producer);
  const auto result = static_cast<std::size_t>(c.value->result_index);
  std::int64_t bytes = view;
  for (const PricedStrategy& priced : producer.priced) {
    if (producer.set.strategies[static_cast<std::size_t>(priced.index)]
            .results[result] == side.port) {
      bytes = std::max(bytes, priced.footprint.result_bytes[result]);
    }
  }
  return bytes;
}

}  // namespace

std::int64_t contribution_of(const ValueContext& c, const ProducerSide& side) {
  if (!c.several || !c.has_gradient) return 0;
  return gradient_bytes(*c.model, c.id, side.port);
}

ProducerSide side_of(const ValueContext& c, const OpChoice& choice) {
  const OpClass& producer = c.model->class_of(c.value->producer);
  const PricedStrategy& priced =
      producer.priced[static_cast<std::size_t>(choice.priced)];
  const auto result = static_cast<std::size_t>(c.value->result_index);
  const bool fate = c.produced.home_region >= 0;
  return ProducerSide{
      producer.set.strategies[static_cast<std::size_t>(priced.index)]
          .results[result],
      fate && choice.recompute,
      c.owns_bytes && priced.footprint.saves_result[result]};
}

std::vector<ProducerSide> producer_sides(const ValueContext& c,
                                         const PlanningProblem& problem) {
  if (!c.value->producer.valid()) return {{replicated(*c.model), false, false}};
  std::set<ProducerSide> sides;
  for (const OpChoice& choice : problem.op_choices[c.value->producer.index()]) {
    sides.insert(side_of(c, choice));
  }
  return {sides.begin(), sides.end()};
}

const std::vector<Port>& reader_ports(const Model& model,
                                      const Reader& reader) {
  return model.class_of(reader.op)
      .operand_ports[static_cast<std::size_t>(reader.operands.front())];
}

std::optional<PricedPassage> passage_of(const ValueContext& c,
                                        const ProducerSide& side,
                                        const Port& to, bool copy_recompute) {
  const bool same = side.port == to;
  if (!same && (c.is_output || view_takes(c, side.port))) return {};
  const PortConversion& conversion =
      convert_port(*c.model, c.id, side.port, to);
  if (!conversion.possible) return {};
  PricedPassage out;
  Passage& passage = out.passage;
  passage.copies = !conversion.forward_identity();
  passage.converts_gradient = !conversion.backward_identity();
  passage.backward_temporary = conversion.backward_temporary;
  if (passage.converts_gradient)
    passage.contribution = contribution_of(c, side);
  out.cost = conversion.backward_cost;
  if (!passage.copies) {
    if (copy_recompute) return {};  // there is no copy
    passage.recompute = side.recompute;
    passage.saves = side.saves;
    if (c.is_loss) passage.held = loss_bytes(c, side);
    return out;
  }
  if (!c.crosses() && copy_recompute != side.recompute) return {};
  passage.forward_temporary = conversion.forward_temporary;
  passage.recompute = copy_recompute;
  if (c.crosses() && copy_recompute) passage.held = held_bytes(c, side);
  const bool again = copy_recompute && runs_again(*c.model, c.convert_slot);
  out.cost += conversion.forward_cost * (again ? 2 : 1);
  return out;
}

}  // namespace shardwright::planner
