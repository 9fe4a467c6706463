// The program `shardwright`: parses the command line, calls one command, and
// turns its outcome into an exit code.
#include <fmt/format.h>

#include <exception>
#include <string>

#include "command.h"
#include "shardwright/base/check.h"
#include "shardwright/base/version.h"

namespace shardwright::cli {
namespace {

constexpr const char* kFooter =
    "Examples:\n"
    "  shardwright doctor\n"
    "  shardwright COMMAND --help\n"
    "\n"
    "Exit codes: 0 done, 1 a check of run failed, 2 wrong input, 3 no plan "
    "exists, 4 internal error.";

// Wrong usage is one message like any other wrong input.
void print_usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const auto commands = app.get_subcommands();
  print_error(
      fmt::format("[cli] {}. Try: shardwright{} --help", error.what(),
                  commands.empty() ? "" : " " + commands.front()->get_name()));
}

int run(int argc, char** argv) {
  CLI::App app{
      "Plans how a PyTorch training step is sharded over a device mesh and "
      "which activations are recomputed.",
      "shardwright"};
  app.set_version_flag("--version", std::string(version()));

  Session session;
  session.arguments.assign(argv + 1, argv + argc);
  add_commands(app, session);
  app.footer(kFooter);  // after the commands, which would inherit it
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // --help and --version arrive here too, with exit code 0.
    if (error.get_exit_code() == 0) return app.exit(error);
    print_usage_error(app, error);
    return kExitInput;
  }
  if (app.get_subcommands().empty()) {
    print_error("[cli] expected a command, got none. Try: shardwright --help");
    return kExitInput;
  }
  return session.exit_code;
}

}  // namespace
}  // namespace shardwright::cli

int main(int argc, char** argv) {
  using namespace shardwright::cli;
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    // Input errors are Results: what is thrown is ours, InternalError or not.
    print_error(error.what());
    return kExitInternal;
  }
}
