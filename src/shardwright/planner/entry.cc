#include "shardwright/planner/entry.h"

#include <fmt/format.h>

#include "shardwright/ir/graph.h"
#include "shardwright/mesh/cluster.h"
#include "shardwright/planner/make_plan.h"
#include "shardwright/planner/plan_case.h"
#include "shardwright/sim/replay.h"
#include "shardwright/solver/problem_json.h"

namespace shardwright::planner {
namespace {

struct Request {
  mesh::Cluster cluster;
  std::vector<mesh::DeviceMesh> meshes;
  PlanOptions options;
};

Result<mesh::Cluster> read_cluster(const Json& json) {
  if (!json.contains("cluster")) {
    return make_error(ErrorCode::kInvalidArgument,
                      "[planner] no cluster is given. Try: cluster=\"4 cpu\", "
                      "\"2x8 a100-80g\" or the path of a cluster file.");
  }
  const Json& cluster = json["cluster"];
  if (cluster.is_string()) {
    return mesh::parse_cluster(cluster.get<std::string>());
  }
  return mesh::cluster_from_json(cluster);
}

Result<std::vector<mesh::DeviceMesh>> read_meshes(
    const Json& json, const mesh::Cluster& cluster) {
  if (!json.contains("mesh") || json["mesh"].is_null()) {
    return mesh::candidate_meshes(cluster);
  }
  SW_ASSIGN_OR_RETURN(const std::vector<std::int64_t> shape,
                      get_ints(json, "mesh", "options"));
  std::vector<std::string> names;
  if (json.contains("axes") && !json["axes"].is_null()) {
    SW_ASSIGN_OR_RETURN(const Json* axes, get_array(json, "axes", "options"));
    for (const Json& name : *axes) {
      if (!name.is_string()) {
        return make_error(ErrorCode::kInvalidArgument,
                          "[planner] axis names must be texts");
      }
      names.push_back(name.get<std::string>());
    }
  }
  SW_ASSIGN_OR_RETURN(mesh::DeviceMesh mesh,
                      mesh::mesh_of(cluster, shape, names));
  return std::vector<mesh::DeviceMesh>{std::move(mesh)};
}

Result<Request> read_request(const std::string& options_json) {
  SW_ASSIGN_OR_RETURN(Json json, parse_json(options_json, "planner options"));
  Request out;
  SW_ASSIGN_OR_RETURN(out.cluster, read_cluster(json));
  SW_ASSIGN_OR_RETURN(out.meshes, read_meshes(json, out.cluster));
  for (const char* key : {"cluster", "mesh", "axes"}) json.erase(key);
  SW_ASSIGN_OR_RETURN(out.options, options_from_json(json));
  return out;
}

Result<ir::Graph> read_graph(const std::string& text) {
  SW_ASSIGN_OR_RETURN(const Json json, parse_json(text, "graph"));
  return ir::graph_from_json(json);
}

}  // namespace

Result<std::string> make_plan_text(const std::string& graph_json,
                                   const std::string& options_json,
                                   const RunHooks& hooks) {
  SW_ASSIGN_OR_RETURN(Request request, read_request(options_json));
  SW_ASSIGN_OR_RETURN(const ir::Graph graph, read_graph(graph_json));
  request.options.interrupted = hooks.interrupted;
  request.options.progress = hooks.progress;
  SW_ASSIGN_OR_RETURN(
      const plan::Plan plan,
      make_plan(graph, request.meshes, request.cluster.name, request.options));
  return plan::plan_to_json(plan).dump(1);
}

Result<std::string> replay_text(const std::string& graph_json,
                                const std::string& plan_json) {
  SW_ASSIGN_OR_RETURN(const PlanCase input,
                      read_plan_case(graph_json, plan_json));
  SW_ASSIGN_OR_RETURN(const sim::MemoryTimeline timeline,
                      sim::replay(input.graph, input.plan));
  Json out = {{"peak_bytes", timeline.peak_bytes},
              {"peak_at", timeline.peak_at},
              {"parameters_bytes", timeline.parameters_bytes},
              {"gradients_bytes", timeline.gradients_bytes},
              {"optimizer_bytes", timeline.optimizer_bytes},
              {"inputs_bytes", timeline.inputs_bytes},
              {"points", Json::array()}};
  for (const sim::MemoryPoint& point : timeline.points) {
    out["points"].push_back(
        {{"at", point.at}, {"level", point.level}, {"peak", point.peak}});
  }
  return out.dump();
}

Result<std::string> choice_problem_text(const std::string& graph_json,
                                        const std::string& options_json) {
  SW_ASSIGN_OR_RETURN(const Request request, read_request(options_json));
  SW_ASSIGN_OR_RETURN(const ir::Graph graph, read_graph(graph_json));
  if (request.meshes.size() != 1) {
    return make_error(ErrorCode::kInvalidArgument,
                      "[planner] a choice problem is of one mesh. Try: name it "
                      "with \"mesh\".");
  }
  SW_ASSIGN_OR_RETURN(
      const solver::ChoiceProblem problem,
      make_choice_problem(graph, request.meshes.front(), request.options));
  return solver::problem_to_json(problem).dump();
}

}  // namespace shardwright::planner
