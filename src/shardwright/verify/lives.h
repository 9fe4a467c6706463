// Positions of a training step and the storages that live over them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "shardwright/verify/program.h"

namespace shardwright::verify::internal {

struct Positions {
  std::vector<std::int32_t> forward, backward;  // per step
  std::vector<std::int32_t> again;              // per step, -1: not run again
  // Per recomputed region: last position of its backward (its inputs are held
  // until then) and last position of its recompute, -1: never.
  std::map<std::int32_t, std::int32_t> region_end, again_end;
  std::int32_t optimizer = 0;

  [[nodiscard]] std::int32_t count() const { return optimizer + 1; }
};

Positions positions_of(const Program& program);
std::string position_text(const Program& program, const Positions& positions,
                          std::int32_t position);

struct Life {
  std::int32_t first = 0;
  std::int32_t last = 0;  // closed
  std::int64_t bytes = 0;
};

// Lives of everything forward and recompute make and autograd keeps; not of
// gradients, nor of what is there all the time. A storage of a recomputed
// region has two.
std::vector<Life> storage_lives(const Program& program,
                                const Positions& positions);

// Bytes of a record's number at the step's local sizes, rounded up.
std::int64_t bytes_at(const cost::Expr& expr, const ProgramStep& step);

}  // namespace shardwright::verify::internal
