// Checks of the plan's lists: header, parameters, regions, outputs.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "shardwright/verify/program.h"

namespace shardwright::verify::internal {
namespace {

// Each dim's axes in mesh order, each axis at most once, nothing partial: the
// layouts a DTensor parameter can be stored in.
bool is_storage(const Layout& layout) {
  return layout.partial.empty() &&
         std::all_of(layout.dims.begin(), layout.dims.end(),
                     [](const std::vector<std::int32_t>& axes) {
                       return std::is_sorted(axes.begin(), axes.end());
                     });
}

void check_one_parameter(const ir::Value& value, const std::string& storage,
                         const plan::Plan& plan, Findings& findings) {
  const std::string where = fmt::format("parameter {}", value.name);
  const auto layout = read_layout(storage, value.shape.size(), plan.mesh);
  if (!layout) {
    findings.add(where, layout.error().message);
    return;
  }
  if (!is_storage(*layout)) {
    findings.add(where, fmt::format("expected axes in mesh order and nothing "
                                    "partial, got {}",
                                    storage));
  }
}

std::string region_name(const plan::Region& region) {
  return fmt::format("region {} ({})", region.id, region.name);
}

}  // namespace

void check_header(const ir::Graph& graph, const plan::Plan& plan,
                  Findings& findings) {
  const std::string hash = ir::graph_hash(graph);
  if (plan.graph_hash != hash) {
    findings.add("graph_hash", fmt::format("the plan is of another graph: "
                                           "expected {}, got {}",
                                           hash, plan.graph_hash));
  }
}

void check_parameters(const ir::Graph& graph, const plan::Plan& plan,
                      Findings& findings) {
  std::map<std::string, const ir::Value*> known;
  for (const ir::Value& value : graph.values) {
    if (value.kind == ir::ValueKind::kParameter) known[value.name] = &value;
  }
  std::set<std::string> stored;
  for (const plan::StoredParameter& parameter : plan.parameters) {
    const std::string where = fmt::format("parameter {}", parameter.name);
    const auto found = known.find(parameter.name);
    if (found == known.end()) {
      findings.add(where, "the graph has no such parameter");
    } else if (!stored.insert(parameter.name).second) {
      findings.add(where, "is stored twice");
    } else {
      check_one_parameter(*found->second, parameter.storage, plan, findings);
    }
  }
  for (const auto& [name, value] : known) {
    if (!stored.contains(name)) {
      findings.add(fmt::format("parameter {}", name), "has no storage spec");
    }
  }
}

void check_regions(const Program& program, Findings& findings) {
  const plan::Plan& plan = *program.plan;
  std::map<std::int32_t, const plan::Region*> regions;
  for (const plan::Region& region : plan.regions) {
    if (!regions.emplace(region.id, &region).second || region.id < 0) {
      findings.add(region_name(region), "has an id that is taken or negative");
    }
  }
  std::set<std::int32_t> left;
  std::int32_t current = -1;
  for (std::size_t s = 0; s < program.steps.size(); ++s) {
    const std::int32_t id = program.steps[s].step->region;
    if (id != current) left.insert(current);
    current = id;
    if (id < 0) continue;
    const auto found = regions.find(id);
    if (found == regions.end()) {
      findings.add(step_name(plan, s),
                   fmt::format("is in region {}, which is not listed", id));
      continue;
    }
    if (left.erase(id) > 0) {
      findings.add(region_name(*found->second),
                   fmt::format("is not contiguous: {} is in it again",
                               step_name(plan, s)));
    }
  }
}

void check_outputs(const Program& program, Findings& findings) {
  const ir::Graph& graph = *program.graph;
  const auto& outputs = program.plan->outputs;
  if (outputs.size() != graph.outputs.size()) {
    findings.add("outputs", fmt::format("expected {}, got {}",
                                        graph.outputs.size(), outputs.size()));
    return;
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::string where =
        fmt::format("output {} ({})", i, outputs[i].value);
    const ir::Value& wanted = graph.value(graph.outputs[i]);
    const auto found = program.buffer_of.find(outputs[i].buffer);
    if (found == program.buffer_of.end()) {
      findings.add(where,
                   fmt::format("buffer '{}' is never made", outputs[i].buffer));
      continue;
    }
    const Buffer& buffer = program.buffer(found->second);
    if (outputs[i].value != wanted.name || buffer.value != graph.outputs[i]) {
      findings.add(
          where, fmt::format("expected '{}', got '{}' in buffer '{}'",
                             wanted.name, outputs[i].value, outputs[i].buffer));
    }
    const std::string layout =
        sharding::to_string(buffer.side.forward, program.plan->mesh);
    if (outputs[i].spec != layout) {
      findings.add(where, fmt::format("lies as {}, the plan says {}", layout,
                                      outputs[i].spec));
    }
  }
}

}  // namespace shardwright::verify::internal
