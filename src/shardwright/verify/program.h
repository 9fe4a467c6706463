// The plan's program followed step by step against the graph: which buffers
// exist, in which layout and gradient layout, who reads them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "shardwright/cost/record.h"
#include "shardwright/ir/graph.h"
#include "shardwright/plan/plan.h"
#include "shardwright/verify/findings.h"
#include "shardwright/verify/op_split.h"

namespace shardwright::verify::internal {

inline constexpr std::int32_t kSource = -1;  // there from the start

struct Buffer {
  std::string name;
  ValueId value;
  Side side;
  std::int32_t producer = kSource;    // step
  std::vector<std::int32_t> readers;  // steps, ascending, each once
  std::int64_t bytes = 0;             // local, coordinate 0
  std::int64_t gradient_bytes = 0;
  bool has_gradient = false;  // the backward from the loss reaches it
};

struct ProgramStep {
  const plan::Step* step = nullptr;
  const ir::Op* op = nullptr;  // null: a conversion
  // Of the variant the step names; kept alive by `owner`.
  const cost::Record* record = nullptr;
  std::shared_ptr<const cost::Record> owner;
  std::vector<std::int32_t> in, out;  // buffers
};

struct Program {
  const ir::Graph* graph = nullptr;
  const plan::Plan* plan = nullptr;
  std::vector<ProgramStep> steps;
  std::vector<Buffer> buffers;
  std::map<std::string, std::int32_t> buffer_of;
  std::int32_t loss = -1;
  // Per region id: run again in backward, and the last step that is.
  std::map<std::int32_t, std::int32_t> last_again;

  [[nodiscard]] const Buffer& buffer(std::int32_t id) const {
    return buffers[static_cast<std::size_t>(id)];
  }
  [[nodiscard]] const ir::Value& value_of(std::int32_t id) const {
    return graph->value(buffer(id).value);
  }
  // The step's backward runs.
  [[nodiscard]] bool has_backward(std::size_t step) const;
  // The step is run again by the recompute of its region.
  [[nodiscard]] bool runs_again(std::size_t step) const;
  // The gradient of operand k that the op's backward makes.
  [[nodiscard]] cost::Handle gradient_of(std::size_t step,
                                         std::size_t operand) const;
};

// "step 12 (<op key>)", "step 3 (conversion of <value>)".
std::string step_name(const plan::Plan& plan, std::size_t step);

// Follows all steps and reports what does not hold. False when the program
// could not be followed to its end, and numbers cannot be worked out.
bool follow_program(const ir::Graph& graph, const plan::Plan& plan,
                    Program& program, Findings& findings);

// Checks of whole lists: parameters, regions, outputs, header.
void check_header(const ir::Graph& graph, const plan::Plan& plan,
                  Findings& findings);
void check_parameters(const ir::Graph& graph, const plan::Plan& plan,
                      Findings& findings);
void check_regions(const Program& program, Findings& findings);
void check_outputs(const Program& program, Findings& findings);

}  // namespace shardwright::verify::internal
