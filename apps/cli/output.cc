#include "output.h"

#include <cstdio>

namespace shardwright::cli {

void add_output_options(CLI::App& command, OutputOptions& options) {
  command.add_flag("--json", options.json,
                   "Answer as JSON (stable keys) instead of text");
  command
      .add_option("-o,--output", options.path,
                  "Write the answer to FILE instead of standard output")
      ->type_name("FILE");
  command.add_flag("--quiet", options.quiet,
                   "No text answer and no progress; errors and exit code only");
}

Result<bool> write_text(const OutputOptions& options, const std::string& text) {
  if (!options.path.empty()) return write_text_file(options.path, text);
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() ||
      std::fflush(stdout) != 0) {
    return make_error(ErrorCode::kIoError,
                      "[cli] writing to standard output failed: the reader "
                      "closed it or the disk is full");
  }
  return true;
}

Result<bool> write_answer(const OutputOptions& options, const std::string& text,
                          const Json& json) {
  if (options.json) return write_text(options, json.dump(2) + "\n");
  if (options.quiet && options.path.empty()) return true;
  return write_text(options, text);
}

void print_error(const std::string& message) {
  std::fprintf(stderr, "error: %s\n", message.c_str());
}

}  // namespace shardwright::cli
