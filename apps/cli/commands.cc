#include <fmt/format.h>

#include <cmath>
#include <functional>

#include "command.h"
#include "python_handoff.h"

namespace shardwright::cli {
namespace {

using AddCommand = void (*)(CLI::App&, Session&);

struct Command {
  const char* name;
  const char* summary;
  AddCommand add;
};

// The Python package answers this command, its --help included: all of the
// command line goes there.
void add_handed_to_python(CLI::App& command, Session& session) {
  command.set_help_flag();
  command.prefix_command();
  command.callback([&session] {
    session.finish(tl::unexpected(exec_python_module(session.arguments)));
  });
}

constexpr Command kCommands[] = {
    {"profile",
     "Time, FLOPs and memory of one training step of a model, without running "
     "it",
     add_handed_to_python},
    {"plan", "Find the best plan for a model or graph on a cluster",
     add_handed_to_python},
    {"explain", "Why a plan is as it is, and what a change would cost",
     add_explain},
    {"verify", "Check a plan against its graph, independently of the planner",
     add_verify},
    {"convert", "The cheapest change of a tensor from one layout to another",
     add_convert},
    {"solve", "Solve a raw choice problem given as a file", add_solve},
    {"run", "Train a model under a plan (under torchrun)",
     add_handed_to_python},
    {"doctor", "Versions and backends of this installation", add_doctor},
};

}  // namespace

namespace {

// CLI11's own ranges print the largest number there is, digit by digit.
CLI::Validator number_check(const std::string& expected,
                            const std::function<bool(double)>& fits) {
  const auto check = [expected, fits](const std::string& text) -> std::string {
    double number = 0;
    if (CLI::detail::lexical_cast(text, number) && std::isfinite(number) &&
        fits(number)) {
      return "";
    }
    return fmt::format("expected {}, got '{}'", expected, text);
  };
  return {check, ""};
}

}  // namespace

CLI::Validator at_least(double least) {
  return number_check(fmt::format("a number of at least {}", least),
                      [least](double number) { return number >= least; });
}

CLI::Validator above(double least) {
  return number_check(fmt::format("a number above {}", least),
                      [least](double number) { return number > least; });
}

int exit_code_of(ErrorCode code) {
  return code == ErrorCode::kInfeasible ? kExitInfeasible : kExitInput;
}

void Session::finish(const Result<bool>& outcome) {
  if (outcome) return;
  print_error(outcome.error().message);
  exit_code = exit_code_of(outcome.error().code);
}

void add_commands(CLI::App& app, Session& session) {
  for (const Command& entry : kCommands) {
    CLI::App* command = app.add_subcommand(entry.name, entry.summary);
    entry.add(*command, session);
  }
}

}  // namespace shardwright::cli
