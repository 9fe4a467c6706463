#include "run_control.h"

#include <atomic>
#include <csignal>

namespace shardwright::cli {
namespace {

std::atomic<bool> interrupt_requested = false;
static_assert(std::atomic<bool>::is_always_lock_free);  // for the handler

void request_interrupt(int) {
  interrupt_requested = true;
  std::signal(SIGINT, SIG_DFL);
}

}  // namespace

void catch_interrupt() { std::signal(SIGINT, request_interrupt); }

bool interrupted() { return interrupt_requested; }

}  // namespace shardwright::cli
