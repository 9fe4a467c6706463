// The textbook tableau simplex with the largest-coefficient rule; after a
// while without progress Bland's rule takes over, which cannot cycle.
#include "shardwright/solver/small_lp.h"

#include <algorithm>
#include <cmath>

namespace shardwright::solver::internal {
namespace {

constexpr double kZero = 1e-10;

struct Tableau {
  std::size_t num_rows;
  std::size_t num_columns;                // structural and slack
  std::vector<std::vector<double>> line;  // num_rows + 1; last: objective
  std::vector<std::size_t> basis;

  explicit Tableau(const SmallLp& problem)
      : num_rows(problem.rows.size()),
        num_columns(problem.gain.size() + problem.rows.size()),
        line(num_rows + 1, std::vector<double>(num_columns + 1, 0.0)) {
    for (std::size_t i = 0; i < num_rows; ++i) {
      std::copy(problem.rows[i].begin(), problem.rows[i].end(),
                line[i].begin());
      line[i][problem.gain.size() + i] = 1;
      line[i][num_columns] = std::max(0.0, problem.bounds[i]);
      basis.push_back(problem.gain.size() + i);
    }
    for (std::size_t j = 0; j < problem.gain.size(); ++j) {
      line[num_rows][j] = -problem.gain[j];
    }
  }

  // Column that improves the objective, or num_columns.
  std::size_t entering(bool bland) const {
    std::size_t best = num_columns;
    double most = -1e-9;
    for (std::size_t j = 0; j < num_columns; ++j) {
      if (line[num_rows][j] >= most) continue;
      best = j;
      if (bland) break;
      most = line[num_rows][j];
    }
    return best;
  }

  std::size_t leaving(std::size_t column) const {
    std::size_t best = num_rows;
    double least = 0;
    for (std::size_t i = 0; i < num_rows; ++i) {
      if (line[i][column] <= kZero) continue;
      const double ratio = line[i][num_columns] / line[i][column];
      if (best < num_rows && ratio > least + kZero) continue;
      if (best < num_rows && ratio >= least - kZero && basis[i] > basis[best]) {
        continue;
      }
      best = i;
      least = ratio;
    }
    return best;
  }

  void pivot(std::size_t row, std::size_t column) {
    const double factor = line[row][column];
    for (double& value : line[row]) value /= factor;
    for (std::size_t i = 0; i <= num_rows; ++i) {
      const double times = line[i][column];
      if (i == row || times == 0) continue;
      for (std::size_t j = 0; j <= num_columns; ++j) {
        line[i][j] -= times * line[row][j];
      }
    }
    basis[row] = column;
  }
};

}  // namespace

SmallLpAnswer maximise(const SmallLp& problem) {
  constexpr int kDantzigPivots = 200;
  constexpr int kMostPivots = 2000;
  Tableau tableau(problem);
  SmallLpAnswer answer;
  for (int step = 0; step < kMostPivots; ++step) {
    const std::size_t column = tableau.entering(step >= kDantzigPivots);
    if (column == tableau.num_columns) {
      answer.optimal = true;
      break;
    }
    const std::size_t row = tableau.leaving(column);
    if (row == tableau.num_rows) break;  // unbounded
    tableau.pivot(row, column);
  }
  const std::size_t count = problem.gain.size();
  answer.x.assign(count, 0.0);
  for (std::size_t i = 0; i < tableau.num_rows; ++i) {
    if (tableau.basis[i] < count) {
      answer.x[tableau.basis[i]] =
          std::max(0.0, tableau.line[i][tableau.num_columns]);
    }
  }
  const auto& objective = tableau.line[tableau.num_rows];
  answer.value = objective[tableau.num_columns];
  for (std::size_t i = 0; i < tableau.num_rows; ++i) {
    answer.dual.push_back(std::max(0.0, objective[count + i]));
  }
  return answer;
}

}  // namespace shardwright::solver::internal
