// Progress of a search as a table on standard error.
//
//      time                 cost                bound        gap  technique
//      0.41           6550120774           6548102216   3.08e-04  prices
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "shardwright/solver/solve.h"

namespace shardwright::cli {

// A line whenever a better cost was found or the bound came noticeably closer,
// but only a few a second: what changed in between is in the next line.
class ProgressLog {
 public:
  using Clock = std::chrono::steady_clock;

  // Times are counted from `start`. `gap` is SolveOptions::gap: parts of the
  // search prove no more than that, so no bound closer than it is shown before
  // the end.
  ProgressLog(bool quiet, Clock::time_point start, double gap);

  // What follows is another search.
  void begin(const std::string& title);
  void update(const solver::Progress& progress);
  // What the search ended with: always shown, unless nothing is known.
  void end(const solver::Answer& answer);

  [[nodiscard]] double seconds() const;
  // When the best cost was first told of; no value when none was.
  [[nodiscard]] std::optional<double> found_seconds() const { return found_; }

 private:
  struct Line {
    double seconds = 0;
    std::int64_t cost = solver::kInfinite;
    std::int64_t bound = std::numeric_limits<std::int64_t>::lowest();
    std::string technique;
  };

  [[nodiscard]] bool is_noticeable(const Line& line) const;
  void print(const Line& line);

  bool quiet_;
  Clock::time_point start_;
  double gap_;
  bool has_header_ = false;
  Line known_;    // the best so far
  Line printed_;  // the last line
  bool pending_ = false;
  Clock::time_point next_;
  std::optional<double> found_;
};

}  // namespace shardwright::cli
