// The commands of the program and what each gets and gives.
//
// To add one: write cmd_<name>.cc with `void add_<name>(CLI::App&, Session&)`,
// declare it below, put it in the table of commands.cc, link its layer in
// CMakeLists.txt. The function adds options to its subcommand and a callback
// that calls the library, writes with Session's output and sets exit_code.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "output.h"
#include "shardwright/base/result.h"

namespace shardwright::cli {

// Process exit codes, the same in `python -m shardwright` (where 1 says that a
// check of `run` failed).
inline constexpr int kExitOk = 0;
inline constexpr int kExitInput = 2;       // the user's input or usage
inline constexpr int kExitInfeasible = 3;  // no plan exists
inline constexpr int kExitInternal = 4;    // our bug

int exit_code_of(ErrorCode code);

// A check of an option: a finite number of at least (or above) `least`.
CLI::Validator at_least(double least);
CLI::Validator above(double least);

// One call of the program.
struct Session {
  std::vector<std::string> arguments;  // argv[1..], as given
  OutputOptions output;
  // When the program started: time limits count from here.
  std::chrono::steady_clock::time_point start =
      std::chrono::steady_clock::now();
  int exit_code = kExitOk;

  // Ends a command: prints the error, if any, and sets the exit code.
  void finish(const Result<bool>& outcome);
};

// Adds every command of the table to the program.
void add_commands(CLI::App& app, Session& session);

void add_convert(CLI::App& command, Session& session);
void add_explain(CLI::App& command, Session& session);
void add_verify(CLI::App& command, Session& session);
void add_solve(CLI::App& command, Session& session);
void add_doctor(CLI::App& command, Session& session);

}  // namespace shardwright::cli
