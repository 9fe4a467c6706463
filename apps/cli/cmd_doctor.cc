// `shardwright doctor`: what this installation consists of. It reports what it
// finds, also what is missing, and fails only when it cannot report.
#include <fmt/format.h>

#include <filesystem>
#include <string>

#include "command.h"
#include "python_handoff.h"
#include "shardwright/base/version.h"

namespace shardwright::cli {
namespace {

constexpr const char* kFooter =
    "Examples:\n"
    "  shardwright doctor                 versions and backends, as text\n"
    "  shardwright doctor --json -o d.json\n"
    "  SHARDWRIGHT_PYTHON=/opt/env/bin/python shardwright doctor";

std::string last_line(const std::string& text) {
  const auto end = text.find_last_not_of(" \n");
  if (end == std::string::npos) return "";
  const auto newline = text.rfind('\n', end);
  const auto begin = newline == std::string::npos ? 0 : newline + 1;
  return text.substr(begin, end - begin + 1);
}

// {"path", "found", and what `python -m shardwright doctor --json` says, or
// "error"}.
Json python_report() {
  const Result<PythonChoice> python = find_python();
  if (!python) return {{"error", python.error().message}};
  Json report = {{"path", python->path}, {"found", python->reason}};
  const auto answer = run_python_module(python->path, {"doctor", "--json"});
  if (!answer) {
    report["error"] = answer.error().message;
  } else if (answer->exit_code != 0) {
    report["error"] = last_line(answer->errors);
  } else if (const auto json = parse_json(answer->output, "python's answer")) {
    report.update(*json);
  } else {
    report["error"] = json.error().message;
  }
  return report;
}

Json make_report() {
  std::error_code failed;
  const auto program =
      std::filesystem::read_symlink("/proc/self/exe", failed).string();
  return {{"shardwright", std::string(version())},
          {"program", program},
          {"compiler", SW_COMPILER},
          {"build", SW_BUILD_TYPE},
          {"layers", SW_LAYERS},
          {"python", python_report()}};
}

// "key   value" lines; nested objects are indented below their key.
std::string to_text(const Json& object, int indent = 0) {
  std::string text;
  for (const auto& [key, value] : object.items()) {
    if (value.is_object()) {
      text += fmt::format("{:{}}{}\n", "", indent, key);
      text += to_text(value, indent + 2);
      continue;
    }
    text += fmt::format(
        "{:{}}{:<{}} {}\n", "", indent, key, 16 - indent,
        value.is_string() ? value.get<std::string>() : value.dump());
  }
  return text;
}

}  // namespace

void add_doctor(CLI::App& command, Session& session) {
  add_output_options(command, session.output);
  command.footer(kFooter);
  command.callback([&session] {
    const Json report = make_report();
    const auto written = write_answer(session.output, to_text(report), report);
    if (!written) {
      print_error(written.error().message);
      session.exit_code = exit_code_of(written.error().code);
    }
  });
}

}  // namespace shardwright::cli
