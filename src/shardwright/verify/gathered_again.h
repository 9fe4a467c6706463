// Copies that are dropped after their readers and gathered again in backward.
//
// Who gathers: the backward of each op that would have saved the copy, once
// however often it saves it, from the source of the copy. A copy passes through
// identity conversions, and through ops whose result is a view of it; a further
// conversion of it (not of a view) is gathered from the same source.
#pragma once

#include <cstdint>
#include <vector>

#include "shardwright/verify/program.h"

namespace shardwright::verify::internal {

// The conversions (steps, first to last) that make the copy which the buffer
// lies in; empty: not of one that is gathered again. O(steps).
std::vector<std::int32_t> gathering_of(const Program& program,
                                       std::int32_t buffer);

// The gatherings that the step's backward makes, each once.
std::vector<std::vector<std::int32_t>> gatherings_in_backward(
    const Program& program, std::size_t step);

// How often each step's forward list runs for these, all backwards together.
std::vector<std::int64_t> runs_for_gathering(const Program& program);

// They start from what is there all the time, gather something, and no reader
// is in a recomputed region, which would hold the copy.
void check_regathers(const Program& program, Findings& findings);

}  // namespace shardwright::verify::internal
