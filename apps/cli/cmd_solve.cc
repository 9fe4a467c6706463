// `shardwright solve`: a raw choice problem from a file.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

#include "command.h"
#include "progress_log.h"
#include "run_control.h"
#include "shardwright/base/input_file.h"
#include "shardwright/solver/answer_json.h"
#include "shardwright/solver/check_solution.h"
#include "shardwright/solver/curve.h"
#include "shardwright/solver/mps.h"
#include "shardwright/solver/solve.h"
#include "solve_input.h"
#include "solve_text.h"

namespace shardwright::cli {
namespace {

constexpr const char* kFooter =
    "The file is JSON (src/shardwright/solver/problem_json.h describes it) or "
    "of\nthe google/iopddl benchmark; plain, gzip or xz; - is standard input.\n"
    "\n"
    "Exit codes: 0 solved or checked, 2 wrong input or a solution that fails "
    "its\ncheck, 3 infeasible.\n"
    "\n"
    "Examples:\n"
    "  shardwright solve problem.json\n"
    "  shardwright solve problem.json --gap 0 --json -o answer.json\n"
    "  shardwright solve problem.json --check answer.json\n"
    "  shardwright solve problem.json --curve 5\n"
    "  shardwright solve problem.json --tick-limit 100000000   "
    "the same answer every time";

struct Arguments {
  std::string path;
  solver::SolveOptions options;
  std::optional<std::int64_t> limit;
  std::string format = "text";
  std::string check;
  std::string mps;
  std::int32_t curve = 0;  // 0: no curve
};

Clock::time_point end_of(double seconds, Clock::time_point start) {
  constexpr double kYear = 3e7;
  return start + std::chrono::duration_cast<Clock::duration>(
                     std::chrono::duration<double>(std::min(seconds, kYear)));
}

Result<solver::ChoiceProblem> read(const Arguments& arguments,
                                   Clock::time_point deadline) {
  SW_ASSIGN_OR_RETURN(solver::ChoiceProblem problem,
                      read_problem(arguments.path, deadline));
  if (arguments.limit) {
    problem.limit = arguments.limit;
    SW_RETURN_IF_ERROR(validate(problem));
  }
  return problem;
}

// The bare list of the benchmark's programs.
Result<std::string> contest_text(const solver::Answer& answer) {
  if (answer.cost < solver::kInfinite) {
    return fmt::format("[{}]\n", fmt::join(answer.choice, ", "));
  }
  if (answer.status == solver::Status::kInfeasible) {
    return make_error(ErrorCode::kInfeasible,
                      "[cli] no solution: the problem is infeasible. Try: "
                      "--json for the smallest feasible limit");
  }
  return make_error(ErrorCode::kInvalidArgument,
                    "[cli] no solution was found in the time given. Try: a "
                    "larger --time-limit");
}

Result<bool> solve_once(const Arguments& arguments,
                        const solver::ChoiceProblem& problem, ProgressLog* log,
                        Session& session) {
  const solver::Answer answer = solver::solve(problem, arguments.options);
  log->end(answer);
  if (answer.status == solver::Status::kInfeasible) {
    session.exit_code = kExitInfeasible;
  }
  if (arguments.format == "contest") {
    SW_ASSIGN_OR_RETURN(const std::string text, contest_text(answer));
    return write_text(session.output, text);
  }
  Json json = answer_to_json(problem, answer);
  json["seconds"] = log->seconds();
  if (log->found_seconds()) json["found_seconds"] = *log->found_seconds();
  return write_answer(session.output, answer_text(problem, answer), json);
}

std::string title_of(const solver::CurveStage& stage) {
  switch (stage.kind) {
    case solver::CurveStage::Kind::kFree:
      return "no limit";
    case solver::CurveStage::Kind::kSmallestLimit:
      return "smallest limit, in bytes";
    case solver::CurveStage::Kind::kLimit:
      break;
  }
  return fmt::format("limit {}", stage.limit);
}

Result<bool> solve_curve(const Arguments& arguments,
                         const solver::ChoiceProblem& problem, ProgressLog* log,
                         Session& session) {
  solver::CurveOptions options;
  options.solve = arguments.options;
  options.num_limits = arguments.curve;
  options.begins = [log](const solver::CurveStage& stage) {
    log->begin(title_of(stage));
  };
  const solver::Curve curve = cost_curve(problem, options);
  if (curve.points.back().answer.status == solver::Status::kInfeasible) {
    session.exit_code = kExitInfeasible;
  }
  Json json = curve_to_json(curve);
  json["seconds"] = log->seconds();
  return write_answer(session.output, curve_text(curve), json);
}

Result<bool> check_file(const Arguments& arguments, Session& session) {
  if (arguments.path == "-" && arguments.check == "-") {
    return make_error(ErrorCode::kInvalidArgument,
                      "[cli] only one of FILE and --check can be standard "
                      "input. Try: a file for the other");
  }
  SW_ASSIGN_OR_RETURN(const solver::ChoiceProblem problem,
                      read(arguments, Clock::time_point::max()));
  SW_ASSIGN_OR_RETURN(const auto file, InputFile::open(arguments.check));
  SW_ASSIGN_OR_RETURN(const std::string text, read_all(*file));
  SW_ASSIGN_OR_RETURN(const Json json, parse_json(text, file->name()));
  SW_ASSIGN_OR_RETURN(const solver::Solution solution,
                      solver::solution_from_json(json, file->name()));
  SW_ASSIGN_OR_RETURN(const solver::SolutionCheck check,
                      solver::check_solution(problem, solution, file->name()));
  if (!check.ok()) session.exit_code = kExitInput;
  return write_answer(session.output, check_text(problem, check),
                      check_to_json(problem, check));
}

// Solvers in floating point keep rows within about 1e-6: of a limit of about a
// million units that is nothing, of one in bytes it would be refused noise.
double bytes_unit_for(const solver::ChoiceProblem& problem) {
  constexpr std::int64_t kMostUnits = std::int64_t{1} << 20;
  double unit = 1;
  for (std::int64_t limit = problem.limit.value_or(0); limit > kMostUnits;
       limit /= 2) {
    unit *= 2;
  }
  return unit;
}

Result<bool> write_mps(const Arguments& arguments, Session& session) {
  SW_ASSIGN_OR_RETURN(const solver::ChoiceProblem problem,
                      read(arguments, Clock::time_point::max()));
  const double unit = bytes_unit_for(problem);
  SW_RETURN_IF_ERROR(
      write_text_file(arguments.mps, solver::to_mps(problem, unit)));
  return write_answer(session.output,
                      fmt::format("wrote {}, memory in units of {:.0f} bytes\n",
                                  arguments.mps, unit),
                      {{"mps", arguments.mps}, {"bytes_unit", unit}});
}

Result<bool> solve_file(Arguments& arguments, Session& session) {
  if (arguments.format == "json") session.output.json = true;
  if (!arguments.check.empty()) return check_file(arguments, session);
  if (!arguments.mps.empty()) return write_mps(arguments, session);
  solver::SolveOptions& options = arguments.options;
  const Clock::time_point deadline =
      end_of(options.time_limit_s, session.start);
  SW_ASSIGN_OR_RETURN(const solver::ChoiceProblem problem,
                      read(arguments, deadline));
  ProgressLog log(session.output.quiet, session.start, options.gap);
  catch_interrupt();
  options.interrupted = interrupted;
  options.progress = [&log](const solver::Progress& progress) {
    log.update(progress);
  };
  options.time_limit_s =
      std::chrono::duration<double>(deadline - Clock::now()).count();
  return arguments.curve > 0 ? solve_curve(arguments, problem, &log, session)
                             : solve_once(arguments, problem, &log, session);
}

void add_search_options(CLI::App& command, Arguments* arguments) {
  solver::SolveOptions& options = arguments->options;
  command
      .add_option("--gap", options.gap,
                  "Stop when (cost - bound) / cost is at most this")
      ->capture_default_str()
      ->check(at_least(0));
  command
      .add_option("--time-limit", options.time_limit_s,
                  "In seconds, reading included")
      ->capture_default_str()
      ->check(above(0));
  command
      .add_option("--tick-limit", options.tick_limit,
                  "Deterministic limit on work; default: none")
      ->check(above(0));
  command.add_option("--seed", options.seed, "Breaks ties between equal costs")
      ->capture_default_str();
  command
      .add_option("--limit", arguments->limit,
                  "Bytes, instead of the file's limit")
      ->check(at_least(0));
}

void add_other_answers(CLI::App& command, Arguments* arguments) {
  CLI::Option* const check =
      command
          .add_option("--check", arguments->check,
                      "Instead of solving, count cost and peak of this "
                      "solution again and compare what it claims: an answer "
                      "of --json or a bare list, - for standard input")
          ->type_name("SOLUTION");
  CLI::Option* const mps =
      command
          .add_option("--mps", arguments->mps,
                      "Instead of solving, write the problem as a mixed-"
                      "integer program for other solvers")
          ->type_name("PATH");
  CLI::Option* const curve =
      command
          .add_option("--curve", arguments->curve,
                      "Cost as a function of the limit: the free optimum and "
                      "N limits from the smallest feasible one (default 8)")
          ->type_name("[N]")
          ->expected(0, 1)
          ->default_str("8")
          ->check(at_least(1));
  CLI::Option* const format =
      command
          .add_option("--format", arguments->format,
                      "text, json (as --json), or contest: the bare list of "
                      "choices")
          ->check(CLI::IsMember({"text", "json", "contest"}));
  check->excludes(mps, curve);
  mps->excludes(curve);
  format->excludes(check, mps, curve);
}

}  // namespace

void add_solve(CLI::App& command, Session& session) {
  auto arguments = std::make_shared<Arguments>();
  command.add_option("FILE", arguments->path, "Choice problem")->required();
  add_search_options(command, arguments.get());
  add_other_answers(command, arguments.get());
  add_output_options(command, session.output);
  command.footer(kFooter);
  command.callback([arguments, &session] {
    session.finish(solve_file(*arguments, session));
  });
}

}  // namespace shardwright::cli
