#include "shardwright/base/result.h"

namespace shardwright {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "invalid_argument";
    case ErrorCode::kInvalidGraph:
      return "invalid_graph";
    case ErrorCode::kInvalidMesh:
      return "invalid_mesh";
    case ErrorCode::kInvalidPlan:
      return "invalid_plan";
    case ErrorCode::kUnsupportedOp:
      return "unsupported_op";
    case ErrorCode::kParseError:
      return "parse_error";
    case ErrorCode::kVersionMismatch:
      return "version_mismatch";
    case ErrorCode::kIoError:
      return "io_error";
    case ErrorCode::kInfeasible:
      return "infeasible";
  }
  return "invalid_argument";
}

}  // namespace shardwright
