// A file read as a stream, decompressed on the way: plain, gzip or xz, told
// apart by their first bytes, not by the name. "-" is standard input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <streambuf>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/base/result.h"

namespace shardwright {

// A stream buffer over the decompressed bytes. Reading ends early after damage
// or a read error, so look at error() once reading is over:
//
//   SW_ASSIGN_OR_RETURN(const auto file, InputFile::open(path));
//   std::istream stream(file.get());
//   ... read ...
//   if (file->error()) return tl::unexpected(*file->error());
class InputFile : public std::streambuf {
 public:
  // Error: kIoError when there is no such file or it cannot be read.
  static Result<std::unique_ptr<InputFile>> open(const std::string& path);
  ~InputFile() override;
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  // The file's name for messages.
  const std::string& name() const { return name_; }
  // The first bytes, a few thousand or all there are; reading is not advanced.
  // Only before anything was read.
  std::string_view head();
  // kIoError when reading failed, kParseError when compressed data is damaged
  // or ends too early.
  const std::optional<Error>& error() const { return error_; }

 protected:
  int_type underflow() override;

 private:
  struct Decoder;  // one per compression
  struct PlainDecoder;
  struct GzipDecoder;
  struct XzDecoder;

  explicit InputFile(std::string name);
  // Fills in_ when it is empty; false at the end or after an error.
  bool refill();
  void fail(ErrorCode code, const std::string& text);

  std::string name_;
  std::FILE* file_ = nullptr;
  bool closes_ = false;
  bool at_end_ = false;
  std::vector<std::uint8_t> in_;  // as stored
  std::size_t in_at_ = 0;         // the first byte not decoded yet
  std::size_t in_size_ = 0;
  std::vector<char> out_;  // decoded
  std::unique_ptr<Decoder> decoder_;
  std::optional<Error> error_;
};

// All of it as text. Errors: those of open() and error().
Result<std::string> read_all(InputFile& file);

}  // namespace shardwright
