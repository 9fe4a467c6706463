// A ChoiceProblem as a mixed-integer program in free MPS format, for a second
// opinion from any MILP solver.
//
// Columns: x<i>_<k> = 1 when node i takes choice k (binary);
//          y<e>_<r>_<c> >= 0, the pair of classes taken at edge e. Infinite
//          pairs have no column.
// Rows:    one<i>      sum_k x<i>_<k> = 1
//          row<e>_<r>  sum_c y<e>_<r>_<c> = sum of x over the class's choices
//          col<e>_<c>  the same for the other end
//          mem<p>      bytes at position p <= limit, wherever something starts
//                      (elsewhere a row before says more)
//
// This is the tight form: without memory rows its LP optimum is whole for
// problems that are trees. Costs are in the problem's unit; bytes are divided
// by `bytes_unit` so that rows are of a size that floating point handles well.
#pragma once

#include <string>

#include "shardwright/solver/choice_problem.h"

namespace shardwright::solver {

// `problem` must be valid: SW_CHECK. O(size of the text).
std::string to_mps(const ChoiceProblem& problem, double bytes_unit = 1.0);

}  // namespace shardwright::solver
