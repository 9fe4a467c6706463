// What a long command shows and how it is stopped.
#pragma once

#include <chrono>
#include <string>

namespace shardwright::cli {

// Makes Ctrl-C a request: the search ends with what it knows. A second Ctrl-C
// ends the program.
void catch_interrupt();
bool interrupted();

// One line on standard error, rewritten in place, for work over a second;
// nothing when standard error is no terminal or `quiet` is set.
class ProgressLine {
 public:
  explicit ProgressLine(bool quiet);
  ~ProgressLine();  // clears the line
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(const std::string& text);

 private:
  using Clock = std::chrono::steady_clock;
  bool enabled_;
  bool shown_ = false;
  Clock::time_point next_;
};

}  // namespace shardwright::cli
