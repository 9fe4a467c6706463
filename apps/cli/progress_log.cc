#include "progress_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace shardwright::cli {
namespace {

constexpr auto kBetween = std::chrono::milliseconds(300);
// A bound is closer when this share of the gap is gone; without a cost, when it
// rose by this share of itself.
constexpr double kShareOfGap = 0.02;
constexpr double kShareOfBound = 1e-4;

bool is_known(std::int64_t number) {
  return number < solver::kInfinite && number > -solver::kInfinite;
}

std::string number_text(std::int64_t number) {
  return is_known(number) ? std::to_string(number) : "-";
}

std::string gap_text(std::int64_t cost, std::int64_t bound) {
  if (!is_known(cost) || !is_known(bound)) return "-";
  solver::Answer answer;
  answer.cost = cost;
  answer.bound = bound;
  return fmt::format("{:.2e}", answer.gap());
}

}  // namespace

ProgressLog::ProgressLog(bool quiet, Clock::time_point start, double gap)
    : quiet_(quiet), start_(start), gap_(gap), next_(Clock::now()) {}

double ProgressLog::seconds() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

void ProgressLog::begin(const std::string& title) {
  known_ = printed_ = Line{};
  pending_ = false;
  found_.reset();
  next_ = Clock::now();
  if (!quiet_) fmt::print(stderr, "{:.2f} s: {}\n", seconds(), title);
}

bool ProgressLog::is_noticeable(const Line& line) const {
  if (line.cost != printed_.cost) return true;
  if (!is_known(line.bound)) return false;
  if (!is_known(printed_.bound)) return true;
  const double rise = double(line.bound) - double(printed_.bound);
  const double whole =
      is_known(line.cost)
          ? kShareOfGap * (double(line.cost) - double(printed_.bound))
          : kShareOfBound * std::abs(double(line.bound));
  return rise > 0 && rise >= whole;
}

void ProgressLog::update(const solver::Progress& progress) {
  Line now = known_;
  now.technique = progress.technique;
  now.seconds = seconds();
  if (progress.cost < now.cost) {
    now.cost = progress.cost;
    found_ = now.seconds;
  }
  std::int64_t bound = progress.bound;
  if (is_known(now.cost)) {
    const double room = gap_ * std::abs(double(now.cost));
    bound = std::min(bound, now.cost - static_cast<std::int64_t>(room));
  }
  now.bound = std::max(now.bound, bound);
  known_ = now;
  if (is_noticeable(known_)) pending_ = true;
  if (pending_ && Clock::now() >= next_) print(known_);
}

void ProgressLog::end(const solver::Answer& answer) {
  Line last;
  last.seconds = seconds();
  last.cost = answer.cost;
  last.bound = answer.bound;
  last.technique = to_string(answer.status);
  if (answer.cost < known_.cost) found_ = last.seconds;
  print(last);
}

void ProgressLog::print(const Line& line) {
  printed_ = line;
  pending_ = false;
  next_ = Clock::now() + kBetween;
  if (quiet_) return;
  if (!has_header_) {
    fmt::print(stderr, "{:>8} {:>20} {:>20} {:>10}  {}\n", "time", "cost",
               "bound", "gap", "technique");
    has_header_ = true;
  }
  fmt::print(stderr, "{:>8.2f} {:>20} {:>20} {:>10}  {}\n", line.seconds,
             number_text(line.cost), number_text(line.bound),
             gap_text(line.cost, line.bound), line.technique);
  std::fflush(stderr);
}

}  // namespace shardwright::cli
