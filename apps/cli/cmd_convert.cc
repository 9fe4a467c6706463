// `shardwright convert`: the cheapest change of layout of one tensor.
#include <string>
#include <vector>

#include "command.h"
#include "shardwright/base/check.h"
#include "shardwright/ir/dtype.h"
#include "shardwright/mesh/cluster.h"
#include "shardwright/sharding/converter.h"

namespace shardwright::cli {
namespace {

constexpr const char* kFooter =
    "A layout names, per dim of the tensor, the mesh axes that split it (major "
    "first,\njoined by ':') or '-', then the axes it is partial over.\n"
    "\n"
    "Examples:\n"
    "  shardwright convert '[a, -]' '[-, a]' --shape 4096,4096 "
    "--cluster '8 h100'\n"
    "  shardwright convert '[-, -] partial{tp}' '[dp, tp]' --shape 8192,1024 "
    "\\\n    --cluster '2x8 a100-80g' --mesh 2x8 --axes dp,tp --json";

struct Arguments {
  std::string from;
  std::string to;
  std::vector<std::int64_t> shape;
  std::string dtype = "float32";
  std::string cluster;
  std::vector<std::int64_t> mesh;
  std::vector<std::string> axes;
};

Result<Json> conversion_json(const Arguments& arguments,
                             const mesh::DeviceMesh& mesh,
                             std::int64_t element_bytes) {
  SW_ASSIGN_OR_RETURN(const auto from,
                      sharding::parse_spec(arguments.from, mesh));
  SW_ASSIGN_OR_RETURN(const auto to, sharding::parse_spec(arguments.to, mesh));
  sharding::Converter converter(mesh);
  const sharding::Conversion* conversion =
      converter.find(from, to, arguments.shape, element_bytes);
  SW_CHECK(conversion != nullptr, "described but not found");
  Json steps = Json::array();
  for (const auto& step : conversion->steps) {
    Json json = sharding::to_json(step, mesh);
    json["time_s"] = step.time.value;
    steps.push_back(std::move(json));
  }
  return Json{{"from", sharding::to_string(from, mesh)},
              {"to", sharding::to_string(to, mesh)},
              {"time_s", conversion->time.value},
              {"peak_bytes", conversion->peak.value},
              {"steps", std::move(steps)}};
}

Result<bool> convert(const Arguments& arguments, const OutputOptions& output) {
  SW_ASSIGN_OR_RETURN(const ir::DType dtype, ir::parse_dtype(arguments.dtype));
  SW_ASSIGN_OR_RETURN(const mesh::Cluster cluster,
                      mesh::parse_cluster(arguments.cluster));
  const std::vector<std::int64_t> shape =
      arguments.mesh.empty() ? std::vector{cluster.num_devices()}
                             : arguments.mesh;
  SW_ASSIGN_OR_RETURN(const mesh::DeviceMesh mesh,
                      mesh::mesh_of(cluster, shape, arguments.axes));
  // The text first: it checks that layouts, shape and mesh belong together.
  SW_ASSIGN_OR_RETURN(
      const std::string text,
      sharding::describe_conversion(arguments.from, arguments.to,
                                    arguments.shape, mesh, ir::size_of(dtype)));
  SW_ASSIGN_OR_RETURN(const Json json,
                      conversion_json(arguments, mesh, ir::size_of(dtype)));
  return write_answer(output, text, json);
}

}  // namespace

void add_convert(CLI::App& command, Session& session) {
  auto arguments = std::make_shared<Arguments>();
  command.add_option("FROM", arguments->from, "Layout now")->required();
  command.add_option("TO", arguments->to, "Layout wanted")->required();
  command
      .add_option("--shape", arguments->shape,
                  "Global shape of the tensor; left out for a scalar")
      ->delimiter(',');
  command.add_option("--dtype", arguments->dtype, "Element type")
      ->capture_default_str();
  command
      .add_option("--cluster", arguments->cluster,
                  "'[HOSTS x] DEVICES NAME' or a cluster file")
      ->required();
  command
      .add_option(
          "--mesh", arguments->mesh,
          "Sizes of the mesh axes (2x8); default: one axis of all devices")
      ->delimiter('x');
  command
      .add_option("--axes", arguments->axes,
                  "Names of the mesh axes; default: a, b, ...")
      ->delimiter(',');
  add_output_options(command, session.output);
  command.footer(kFooter);
  command.callback([arguments, &session] {
    session.finish(convert(*arguments, session.output));
  });
}

}  // namespace shardwright::cli
