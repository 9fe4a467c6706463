#include "python_handoff.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <sstream>

extern char** environ;

namespace shardwright::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::array kPythonNames = {"python", "python3"};

bool is_executable(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) && access(path.c_str(), X_OK) == 0;
}

std::optional<std::string> python_in(const fs::path& folder) {
  for (const char* name : kPythonNames) {
    if (is_executable(folder / name)) return (folder / name).string();
  }
  return std::nullopt;
}

std::optional<std::string> python_on_path() {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (folder.empty()) continue;
    if (auto found = python_in(folder)) return found;
  }
  return std::nullopt;
}

// argv of `python -m shardwright ARGUMENTS`; points into its inputs.
std::vector<char*> module_argv(std::string& python,
                               std::vector<std::string>& arguments) {
  static char minus_m[] = "-m";
  static char module[] = "shardwright";
  std::vector<char*> argv = {python.data(), minus_m, module};
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  return argv;
}

// A temporary file without a name, read back after the child has ended: no
// pipe can fill up, whatever the child writes and in which order.
class Capture {
 public:
  Capture() : file_(std::tmpfile()) {}
  ~Capture() {
    if (file_ != nullptr) std::fclose(file_);
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  [[nodiscard]] bool valid() const { return file_ != nullptr; }
  [[nodiscard]] int descriptor() const { return fileno(file_); }
  std::string text() {
    std::string all;
    std::array<char, 4096> part{};
    std::rewind(file_);
    while (std::size_t size = std::fread(part.data(), 1, part.size(), file_)) {
      all.append(part.data(), size);
    }
    return all;
  }

 private:
  std::FILE* file_;
};

}  // namespace

Result<PythonChoice> find_python() {
  const char* chosen = std::getenv("SHARDWRIGHT_PYTHON");
  if (chosen != nullptr && *chosen != '\0') {
    if (is_executable(chosen)) {
      return PythonChoice{chosen, "$SHARDWRIGHT_PYTHON"};
    }
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("[cli] $SHARDWRIGHT_PYTHON: expected an executable file, "
                    "got '{}'. Try: the full path of a python, or unset it",
                    chosen));
  }
  std::error_code failed;
  const fs::path program = fs::read_symlink("/proc/self/exe", failed);
  if (!failed) {
    if (auto found = python_in(program.parent_path())) {
      return PythonChoice{*found, "beside the program"};
    }
  }
  if (auto found = python_on_path()) return PythonChoice{*found, "on PATH"};
  return make_error(
      ErrorCode::kInvalidArgument,
      "[cli] this command needs Python with shardwright and torch: found none "
      "in $SHARDWRIGHT_PYTHON, beside the program, or on PATH. Try: set "
      "SHARDWRIGHT_PYTHON to the python of the environment that has them");
}

Error exec_python_module(const std::vector<std::string>& arguments) {
  Result<PythonChoice> python = find_python();
  if (!python) return python.error();
  std::vector<std::string> copy = arguments;
  std::vector<char*> argv = module_argv(python->path, copy);
  execv(python->path.c_str(), argv.data());
  return Error{ErrorCode::kIoError,
               fmt::format("[cli] cannot start {}: {}", python->path,
                           std::strerror(errno))};
}

Result<PythonAnswer> run_python_module(
    const std::string& python, const std::vector<std::string>& arguments) {
  Capture output;
  Capture errors;
  if (!output.valid() || !errors.valid()) {
    return make_error(ErrorCode::kIoError,
                      fmt::format("[cli] cannot make a temporary file: {}",
                                  std::strerror(errno)));
  }
  std::string path = python;
  std::vector<std::string> copy = arguments;
  std::vector<char*> argv = module_argv(path, copy);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, output.descriptor(),
                                   STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, errors.descriptor(),
                                   STDERR_FILENO);
  pid_t child = 0;
  const int failed = posix_spawn(&child, path.c_str(), &actions, nullptr,
                                 argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  if (failed != 0 || waitpid(child, &status, 0) != child) {
    return make_error(ErrorCode::kIoError,
                      fmt::format("[cli] cannot start {}: {}", path,
                                  std::strerror(failed != 0 ? failed : errno)));
  }
  const int exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  return PythonAnswer{exit_code, output.text(), errors.text()};
}

}  // namespace shardwright::cli
