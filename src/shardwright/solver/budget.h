// How much work is left: ticks (deterministic), time and the caller's wish to
// stop, polled so rarely that it costs nothing and so often that a stop takes
// effect within a few hundredths of a second.
#pragma once

#include <chrono>
#include <cstdint>

#include "shardwright/solver/solve.h"

namespace shardwright::solver::internal {

class Budget {
 public:
  explicit Budget(const SolveOptions& options)
      : options_(options), start_(std::chrono::steady_clock::now()) {}

  // A tick is about one table cell looked at: a few nanoseconds.
  void charge(std::int64_t ticks) {
    ticks_ += ticks;
    if (ticks_ >= options_.tick_limit) spent_ = true;
    if (ticks_ >= next_poll_) poll();
  }
  bool spent() const { return spent_; }
  std::int64_t ticks() const { return ticks_; }
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                         start_)
        .count();
  }
  const SolveOptions& options() const { return options_; }
  // True when the stop was not a deterministic one.
  bool stopped_by_time() const { return stopped_by_time_; }

 private:
  static constexpr std::int64_t kPollTicks = 1'000'000;

  void poll() {
    next_poll_ = ticks_ + kPollTicks;
    if (seconds() > options_.time_limit_s ||
        (options_.interrupted && options_.interrupted())) {
      spent_ = true;
      stopped_by_time_ = true;
    }
  }

  const SolveOptions& options_;
  std::chrono::steady_clock::time_point start_;
  std::int64_t ticks_ = 0;
  std::int64_t next_poll_ = 0;
  bool spent_ = false;
  bool stopped_by_time_ = false;
};

}  // namespace shardwright::solver::internal
