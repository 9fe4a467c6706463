#include "run_control.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>

namespace shardwright::cli {
namespace {

constexpr auto kFirstShown = std::chrono::seconds(1);
constexpr auto kBetween = std::chrono::milliseconds(200);
constexpr const char* kClearLine = "\r\x1b[K";

std::atomic<bool> interrupt_requested = false;
static_assert(std::atomic<bool>::is_always_lock_free);  // for the handler

void request_interrupt(int) {
  interrupt_requested = true;
  std::signal(SIGINT, SIG_DFL);
}

}  // namespace

void catch_interrupt() { std::signal(SIGINT, request_interrupt); }

bool interrupted() { return interrupt_requested; }

ProgressLine::ProgressLine(bool quiet)
    : enabled_(!quiet && isatty(STDERR_FILENO) != 0),
      next_(Clock::now() + kFirstShown) {}

ProgressLine::~ProgressLine() {
  if (shown_) std::fputs(kClearLine, stderr);
}

void ProgressLine::show(const std::string& text) {
  if (!enabled_ || Clock::now() < next_) return;
  std::fprintf(stderr, "%s%s", kClearLine, text.c_str());
  std::fflush(stderr);
  shown_ = true;
  next_ = Clock::now() + kBetween;
}

}  // namespace shardwright::cli
