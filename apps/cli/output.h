// --json, -o and --quiet: the same three options and one way of writing for
// every command.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "shardwright/base/json.h"
#include "shardwright/base/result.h"

namespace shardwright::cli {

struct OutputOptions {
  bool json = false;
  bool quiet = false;
  std::string path;  // empty: standard output
};

void add_output_options(CLI::App& command, OutputOptions& options);

// Writes the answer: `json` when --json was given, else `text`; into the file
// of -o, else to standard output (nothing there with --quiet unless --json).
// Error: kIoError.
Result<bool> write_answer(const OutputOptions& options, const std::string& text,
                          const Json& json);

// The same for an answer that has one form only: --json and --quiet change
// nothing.
Result<bool> write_text(const OutputOptions& options, const std::string& text);

// One line on standard error, "error: ...".
void print_error(const std::string& message);

}  // namespace shardwright::cli
