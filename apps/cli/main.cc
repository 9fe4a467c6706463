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

// The first argument, where it should be a command and is none.
std::string unknown_command(const CLI::App& app, const Session& session) {
  if (!app.get_subcommands().empty() || session.arguments.empty()) return "";
  const std::string& first = session.arguments.front();
  return first.starts_with('-') ? "" : first;
}

std::string command_names(const CLI::App& app) {
  std::string names;
  for (const CLI::App* command : app.get_subcommands({})) {
    names += (names.empty() ? "" : ", ") + command->get_name();
  }
  return names;
}

// Wrong usage is one message like any other wrong input.
void print_usage_error(const CLI::App& app, const Session& session,
                       const CLI::ParseError& error) {
  const std::string unknown = unknown_command(app, session);
  if (!unknown.empty()) {
    print_error(fmt::format(
        "[cli] there is no command '{}': expected one of {}. Try: shardwright "
        "--help",
        unknown, command_names(app)));
    return;
  }
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
    print_usage_error(app, session, error);
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
