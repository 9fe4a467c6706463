// Finding the Python of this installation and handing a command line to it.
#pragma once

#include <string>
#include <vector>

#include "shardwright/base/result.h"

namespace shardwright::cli {

struct PythonChoice {
  std::string path;    // executable
  std::string reason;  // "$SHARDWRIGHT_PYTHON", "beside the program", "on PATH"
};

// $SHARDWRIGHT_PYTHON, else the python beside this program, else the one on
// PATH. Error: kInvalidArgument when the variable names no executable file or
// nothing is found.
Result<PythonChoice> find_python();

// Replaces this process with `python -m shardwright ARGUMENTS`; returns only
// when that is impossible.
Error exec_python_module(const std::vector<std::string>& arguments);

struct PythonAnswer {
  int exit_code = 0;
  std::string output;  // standard output
  std::string errors;  // standard error
};

// Runs `python -m shardwright ARGUMENTS` and waits for it. Error: kIoError.
Result<PythonAnswer> run_python_module(
    const std::string& python, const std::vector<std::string>& arguments);

}  // namespace shardwright::cli
