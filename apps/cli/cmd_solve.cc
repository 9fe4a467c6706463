// `shardwright solve`: a raw choice problem from a file.
#include <fmt/format.h>

#include <istream>
#include <string>

#include "command.h"
#include "run_control.h"
#include "shardwright/base/input_file.h"
#include "shardwright/solver/iopddl.h"
#include "shardwright/solver/problem_json.h"
#include "shardwright/solver/solve.h"

namespace shardwright::cli {
namespace {

constexpr const char* kFooter =
    "The file is JSON; src/shardwright/solver/problem_json.h describes it.\n"
    "\n"
    "Examples:\n"
    "  shardwright solve problem.json\n"
    "  shardwright solve problem.json --gap 0 --json -o answer.json\n"
    "  shardwright solve problem.json --tick-limit 100000000   "
    "the same answer every time";

struct Arguments {
  std::string path;
  solver::SolveOptions options;
};

bool has_cost(const solver::Answer& answer) { return !answer.choice.empty(); }

// Names of the chosen choices' nodes and their indices are in the order of the
// problem's nodes.
Json to_json(const solver::Answer& answer) {
  Json json = {{"status", to_string(answer.status)},
               {"techniques", answer.techniques},
               {"ticks", answer.ticks}};
  if (has_cost(answer)) {
    json["cost"] = answer.cost;
    json["bound"] = answer.bound;
    json["gap"] = answer.gap();
    json["peak"] = answer.peak;
    json["choice"] = answer.choice;
    json["prices"] = Json::array();
    for (const solver::PricedRow& row : answer.prices) {
      json["prices"].push_back(
          {{"position", row.position}, {"price", row.price}});
    }
  }
  if (answer.status == solver::Status::kInfeasible) {
    json["smallest_limit"] = answer.smallest_limit < solver::kInfinite
                                 ? Json(answer.smallest_limit)
                                 : Json(nullptr);
    json["smallest_limit_bound"] = answer.smallest_limit_bound;
    json["binding_position"] = answer.binding_position;
  }
  return json;
}

std::string to_text(const solver::Answer& answer) {
  std::string text = fmt::format("{}\n", to_string(answer.status));
  if (has_cost(answer)) {
    text += fmt::format("cost   {}\nbound  {}\ngap    {:.3g}\npeak   {}\n",
                        answer.cost, answer.bound, answer.gap(), answer.peak);
    text += fmt::format("choice {}\n", fmt::join(answer.choice, " "));
  }
  if (answer.status == solver::Status::kInfeasible) {
    text += answer.smallest_limit < solver::kInfinite
                ? fmt::format(
                      "smallest feasible limit {} (at least {}), "
                      "memory is short at position {}\n",
                      answer.smallest_limit, answer.smallest_limit_bound,
                      answer.binding_position)
                : "no choice avoids the infinite edges\n";
  }
  return text + fmt::format("by     {}, {} ticks\n",
                            fmt::join(answer.techniques, ", "), answer.ticks);
}

// Our own format or the benchmark's, by what the file begins with.
Result<solver::ChoiceProblem> read_problem(const std::string& path) {
  SW_ASSIGN_OR_RETURN(const auto file, InputFile::open(path));
  Result<solver::ChoiceProblem> problem;
  if (solver::looks_like_iopddl(file->head())) {
    std::istream stream(file.get());
    problem = solver::read_iopddl(stream, file->name());
    // Damaged data reads as bad JSON; the damage is the reason.
    if (file->error()) return tl::unexpected(*file->error());
    return problem;
  }
  SW_ASSIGN_OR_RETURN(const std::string text, read_all(*file));
  SW_ASSIGN_OR_RETURN(const Json json, parse_json(text, file->name()));
  return solver::problem_from_json(json, file->name());
}

Result<bool> solve_file(Arguments& arguments, Session& session) {
  SW_ASSIGN_OR_RETURN(const solver::ChoiceProblem problem,
                      read_problem(arguments.path));
  ProgressLine line(session.output.quiet);
  catch_interrupt();
  arguments.options.interrupted = interrupted;
  arguments.options.progress = [&line](const solver::Progress& progress) {
    line.show(
        fmt::format("{:.0f} s, {}", progress.seconds, progress.technique));
  };
  const solver::Answer answer = solver::solve(problem, arguments.options);
  if (answer.status == solver::Status::kInfeasible) {
    session.exit_code = kExitInfeasible;
  }
  return write_answer(session.output, to_text(answer), to_json(answer));
}

}  // namespace

void add_solve(CLI::App& command, Session& session) {
  auto arguments = std::make_shared<Arguments>();
  solver::SolveOptions& options = arguments->options;
  command.add_option("FILE", arguments->path, "Choice problem")->required();
  command
      .add_option("--gap", options.gap,
                  "Stop when (cost - bound) / cost is at most this")
      ->capture_default_str()
      ->check(at_least(0));
  command.add_option("--time-limit", options.time_limit_s, "In seconds")
      ->capture_default_str()
      ->check(above(0));
  command
      .add_option("--tick-limit", options.tick_limit,
                  "Deterministic limit on work; default: none")
      ->check(above(0));
  command.add_option("--seed", options.seed, "Breaks ties between equal costs")
      ->capture_default_str();
  add_output_options(command, session.output);
  command.footer(kFooter);
  command.callback([arguments, &session] {
    session.finish(solve_file(*arguments, session));
  });
}

}  // namespace shardwright::cli
