#include "shardwright/base/input_file.h"

#include <fmt/format.h>
#include <lzma.h>
#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iterator>

namespace shardwright {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 18;
// xz files made with the largest preset need 65 MiB to be read.
constexpr std::uint64_t kMostXzMemory = std::uint64_t{1} << 30;

}  // namespace

// Turns stored bytes into bytes. One call fills as much of `out` as the stored
// bytes at hand allow.
struct InputFile::Decoder {
  enum class State { kMore, kEnd, kTruncated, kDamaged };

  virtual ~Decoder() = default;
  // Moves *in and *out past what was read and written. `last`: nothing follows
  // these bytes. kEnd: all there is has been decoded.
  virtual State decode(const std::uint8_t** in, const std::uint8_t* in_end,
                       char** out, char* out_end, bool last) = 0;
};

struct InputFile::PlainDecoder : Decoder {
  State decode(const std::uint8_t** in, const std::uint8_t* in_end, char** out,
               char* out_end, bool last) override {
    const auto count = std::min(in_end - *in, out_end - *out);
    std::memcpy(*out, *in, static_cast<std::size_t>(count));
    *in += count;
    *out += count;
    return last && *in == in_end ? State::kEnd : State::kMore;
  }
};

struct InputFile::GzipDecoder : Decoder {
  GzipDecoder() {
    constexpr int kGzipOnly = 16;
    inflateInit2(&stream, MAX_WBITS + kGzipOnly);
  }
  ~GzipDecoder() override { inflateEnd(&stream); }
  GzipDecoder(const GzipDecoder&) = delete;
  GzipDecoder& operator=(const GzipDecoder&) = delete;

  State decode(const std::uint8_t** in, const std::uint8_t* in_end, char** out,
               char* out_end, bool last) override {
    // Several gzip members may follow each other.
    if (member_ended) {
      if (*in == in_end) return last ? State::kEnd : State::kMore;
      inflateReset(&stream);
      member_ended = false;
    }
    stream.next_in = const_cast<Bytef*>(*in);
    stream.avail_in = static_cast<uInt>(in_end - *in);
    stream.next_out = reinterpret_cast<Bytef*>(*out);
    stream.avail_out = static_cast<uInt>(out_end - *out);
    const char* const out_before = *out;
    const int status = inflate(&stream, Z_NO_FLUSH);
    *in = stream.next_in;
    *out = reinterpret_cast<char*>(stream.next_out);
    if (status == Z_STREAM_END) {
      member_ended = true;
      return last && *in == in_end ? State::kEnd : State::kMore;
    }
    if (status != Z_OK && status != Z_BUF_ERROR) return State::kDamaged;
    const bool stuck = last && *in == in_end && *out == out_before;
    return stuck ? State::kTruncated : State::kMore;
  }

  z_stream stream = {};
  bool member_ended = false;
};

struct InputFile::XzDecoder : Decoder {
  XzDecoder() {
    broken = lzma_stream_decoder(&stream, kMostXzMemory, LZMA_CONCATENATED) !=
             LZMA_OK;
  }
  ~XzDecoder() override { lzma_end(&stream); }
  XzDecoder(const XzDecoder&) = delete;
  XzDecoder& operator=(const XzDecoder&) = delete;

  State decode(const std::uint8_t** in, const std::uint8_t* in_end, char** out,
               char* out_end, bool last) override {
    if (broken) return State::kDamaged;
    stream.next_in = *in;
    stream.avail_in = static_cast<std::size_t>(in_end - *in);
    stream.next_out = reinterpret_cast<std::uint8_t*>(*out);
    stream.avail_out = static_cast<std::size_t>(out_end - *out);
    const lzma_ret status = lzma_code(&stream, last ? LZMA_FINISH : LZMA_RUN);
    *in = stream.next_in;
    *out = reinterpret_cast<char*>(stream.next_out);
    if (status == LZMA_STREAM_END) return State::kEnd;
    if (status == LZMA_BUF_ERROR) return State::kTruncated;
    return status == LZMA_OK ? State::kMore : State::kDamaged;
  }

  lzma_stream stream = LZMA_STREAM_INIT;
  bool broken = false;
};

Result<std::unique_ptr<InputFile>> InputFile::open(const std::string& path) {
  std::unique_ptr<InputFile> file(
      new InputFile(path == "-" ? "standard input" : path));
  if (path == "-") {
    file->file_ = stdin;
  } else {
    file->file_ = std::fopen(path.c_str(), "rb");
    if (file->file_ == nullptr) {
      return make_error(
          ErrorCode::kIoError,
          fmt::format("[io] cannot read {}: {}", path, std::strerror(errno)));
    }
    file->closes_ = true;
    struct stat status = {};
    if (fstat(fileno(file->file_), &status) == 0 && S_ISDIR(status.st_mode)) {
      return make_error(
          ErrorCode::kIoError,
          fmt::format("[io] cannot read {}: it is a folder", path));
    }
  }
  file->in_.resize(kBufferBytes);
  file->out_.resize(kBufferBytes);
  file->refill();
  if (file->error_) return tl::unexpected(*file->error_);
  const std::string_view start(reinterpret_cast<const char*>(file->in_.data()),
                               file->in_size_);
  using std::string_view_literals::operator""sv;
  if (start.starts_with("\x1f\x8b"sv)) {
    file->decoder_ = std::make_unique<GzipDecoder>();
  } else if (start.starts_with("\xfd"
                               "7zXZ\0"sv)) {
    file->decoder_ = std::make_unique<XzDecoder>();
  } else {
    file->decoder_ = std::make_unique<PlainDecoder>();
  }
  return file;
}

InputFile::InputFile(std::string name) : name_(std::move(name)) {}

InputFile::~InputFile() {
  if (closes_) std::fclose(file_);
}

void InputFile::fail(ErrorCode code, const std::string& text) {
  error_ = Error{code, fmt::format("[io] {}: {}", name_, text)};
}

bool InputFile::refill() {
  if (in_at_ < in_size_) return true;
  if (at_end_ || error_) return false;
  in_at_ = 0;
  in_size_ = std::fread(in_.data(), 1, in_.size(), file_);
  if (in_size_ < in_.size()) {
    at_end_ = true;
    if (std::ferror(file_) != 0) {
      fail(ErrorCode::kIoError,
           fmt::format("cannot be read: {}", std::strerror(errno)));
      in_size_ = 0;
    }
  }
  return in_size_ > 0;
}

InputFile::int_type InputFile::underflow() {
  if (gptr() != egptr()) return traits_type::to_int_type(*gptr());
  char* out = out_.data();
  char* const out_end = out + out_.size();
  while (!error_ && decoder_ != nullptr && out < out_end) {
    refill();
    if (error_) break;
    const std::uint8_t* in = in_.data() + in_at_;
    const Decoder::State state =
        decoder_->decode(&in, in_.data() + in_size_, &out, out_end, at_end_);
    in_at_ = static_cast<std::size_t>(in - in_.data());
    if (state == Decoder::State::kTruncated) {
      fail(ErrorCode::kParseError,
           "the compressed data ends too early. Try: fetch the file again");
    }
    if (state == Decoder::State::kDamaged) {
      fail(ErrorCode::kParseError,
           "the compressed data is damaged. Try: fetch the file again");
    }
    if (state == Decoder::State::kEnd) decoder_.reset();
  }
  if (out == out_.data()) return traits_type::eof();
  setg(out_.data(), out_.data(), out);
  return traits_type::to_int_type(*gptr());
}

std::string_view InputFile::head() {
  underflow();
  return {gptr(), static_cast<std::size_t>(egptr() - gptr())};
}

Result<std::string> read_all(InputFile& file) {
  std::string text{std::istreambuf_iterator<char>(&file), {}};
  if (file.error()) return tl::unexpected(*file.error());
  return text;
}

}  // namespace shardwright
