// A dense linear program of a few dozen lines: the master problem of the
// prices. Doubles; nothing exact depends on its answer.
#pragma once

#include <vector>

namespace shardwright::solver::internal {

struct SmallLp {
  // maximise gain . x  subject to  row_i . x <= bound_i,  x >= 0
  std::vector<double> gain;
  std::vector<std::vector<double>> rows;
  std::vector<double> bounds;  // all >= 0, so that x = 0 is a start
};

struct SmallLpAnswer {
  bool optimal = false;  // false: unbounded, or the pivot limit was reached
  double value = 0;
  std::vector<double> x;
  std::vector<double> dual;  // per row, >= 0
};

// Primal simplex on the dense tableau; O(rows x columns) per pivot.
SmallLpAnswer maximise(const SmallLp& problem);

}  // namespace shardwright::solver::internal
