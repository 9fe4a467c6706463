#include "solve_input.h"

#include <fmt/format.h>

#include <istream>
#include <iterator>
#include <vector>

#include "shardwright/base/input_file.h"
#include "shardwright/base/json.h"
#include "shardwright/solver/iopddl.h"
#include "shardwright/solver/problem_json.h"

namespace shardwright::cli {
namespace {

// Hands on what `source` has until the deadline, then ends.
class DeadlineBuffer : public std::streambuf {
 public:
  DeadlineBuffer(std::streambuf& source, Clock::time_point deadline)
      : source_(source), deadline_(deadline), part_(kPartBytes) {}

  [[nodiscard]] bool expired() const { return expired_; }

 protected:
  int_type underflow() override {
    if (Clock::now() >= deadline_) {
      expired_ = true;
      return traits_type::eof();
    }
    const std::streamsize count =
        source_.sgetn(part_.data(), std::streamsize(part_.size()));
    if (count <= 0) return traits_type::eof();
    setg(part_.data(), part_.data(), part_.data() + count);
    return traits_type::to_int_type(part_.front());
  }

 private:
  static constexpr std::size_t kPartBytes = std::size_t{1} << 16;
  std::streambuf& source_;
  Clock::time_point deadline_;
  std::vector<char> part_;
  bool expired_ = false;
};

Result<solver::ChoiceProblem> parse(std::istream& stream, bool is_iopddl,
                                    const std::string& name) {
  if (is_iopddl) return solver::read_iopddl(stream, name);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  SW_ASSIGN_OR_RETURN(const Json json, parse_json(text, name));
  return solver::problem_from_json(json, name);
}

}  // namespace

Result<solver::ChoiceProblem> read_problem(const std::string& path,
                                           Clock::time_point deadline) {
  SW_ASSIGN_OR_RETURN(const auto file, InputFile::open(path));
  const bool is_iopddl = solver::looks_like_iopddl(file->head());
  DeadlineBuffer buffer(*file, deadline);
  std::istream stream(&buffer);
  Result<solver::ChoiceProblem> problem =
      parse(stream, is_iopddl, file->name());
  // Damaged data, or half of it, reads as bad JSON: that is not the reason.
  if (file->error()) return tl::unexpected(*file->error());
  if (buffer.expired()) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("[cli] {}: reading took longer than the time limit. Try: a "
                    "larger --time-limit",
                    file->name()));
  }
  return problem;
}

}  // namespace shardwright::cli
