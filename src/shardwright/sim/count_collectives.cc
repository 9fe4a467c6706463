#include <algorithm>
#include <map>
#include <tuple>

#include "shardwright/sim/program.h"
#include "shardwright/sim/replay.h"

namespace shardwright::sim {
namespace {

using Key = std::tuple<std::string, std::string, std::int64_t>;

bool is_local(const std::string& kind) {
  return kind == "slice" || kind == "make_partial";
}

template <typename List>
void add(const List& list, std::int64_t times,
         std::map<Key, std::int64_t>& counts) {
  if (times == 0) return;
  for (const auto& item : list) {
    if (is_local(item.kind)) continue;
    counts[Key{item.kind, item.axis, item.bytes}] += times;
  }
}

// A copy that is gathered again is made once more where a reader's backward
// unpacks it, from its source.
void add_gathered_again(const internal::Program& program, std::size_t s,
                        std::map<Key, std::int64_t>& counts) {
  for (const std::int32_t recipe : internal::gathered_again(program, s)) {
    for (const std::int32_t conversion :
         program.recipes[static_cast<std::size_t>(recipe)].conversions) {
      add(program.steps[static_cast<std::size_t>(conversion)].step->forward, 1,
          counts);
    }
  }
}

}  // namespace

Result<std::vector<plan::CollectiveCount>> count_collectives(
    const ir::Graph& graph, const plan::Plan& plan) {
  SW_ASSIGN_OR_RETURN(const internal::Program program,
                      internal::resolve(graph, plan));
  std::map<Key, std::int64_t> counts;
  for (std::size_t s = 0; s < program.steps.size(); ++s) {
    const internal::ResolvedStep& step = program.steps[s];
    const bool backward =
        std::any_of(step.out.begin(), step.out.end(), [&](std::int32_t b) {
          return program.gets_gradient[static_cast<std::size_t>(b)];
        });
    const std::int64_t again = internal::runs_again(program, s) ? 1 : 0;
    if (step.op == nullptr) {
      add(step.step->forward, 1 + again, counts);
      add(step.step->backward, backward ? 1 : 0, counts);
    } else {
      if (backward) add_gathered_again(program, s, counts);
      add(step.step->collectives_forward, 1 + again, counts);
      add(step.step->collectives_backward, backward ? 1 : 0, counts);
    }
  }
  std::vector<plan::CollectiveCount> out;
  out.reserve(counts.size());
  for (const auto& [key, count] : counts) {
    out.push_back(plan::CollectiveCount{std::get<0>(key), std::get<1>(key),
                                        std::get<2>(key), count});
  }
  return out;
}

}  // namespace shardwright::sim
