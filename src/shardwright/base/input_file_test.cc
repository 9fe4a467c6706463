#include "shardwright/base/input_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <lzma.h>
#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <istream>

namespace shardwright {
namespace {

using testing::HasSubstr;

std::string gzip_of(const std::string& text) {
  z_stream stream = {};
  constexpr int kGzip = 16;
  EXPECT_EQ(deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, MAX_WBITS + kGzip,
                         8, Z_DEFAULT_STRATEGY),
            Z_OK);
  std::string input = text;
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(input.data());
  stream.avail_in = static_cast<uInt>(input.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string xz_of(const std::string& text) {
  std::string out(lzma_stream_buffer_bound(text.size()), '\0');
  std::size_t size = 0;
  EXPECT_EQ(lzma_easy_buffer_encode(
                /*preset=*/1, LZMA_CHECK_CRC32, nullptr,
                reinterpret_cast<const std::uint8_t*>(text.data()), text.size(),
                reinterpret_cast<std::uint8_t*>(out.data()), &size, out.size()),
            LZMA_OK);
  out.resize(size);
  return out;
}

// Text that compresses to about half: larger than every buffer when stored too.
std::string long_text(std::size_t size) {
  std::string out(size, ' ');
  std::uint64_t state = 1;
  for (char& c : out) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    c = static_cast<char>('a' + (state >> 60));
  }
  return out;
}

class InputFileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) /
              (std::string("sw_input_file_") +
               testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path_of(const std::string& content) const {
    const std::string path = folder_ / "file";
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
  Result<std::string> read(const std::string& content) const {
    const auto file = InputFile::open(path_of(content));
    if (!file) return tl::unexpected(file.error());
    return read_all(**file);
  }
  // The reason without the path before it.
  std::string reason(const std::string& content) const {
    const Result<std::string> text = read(content);
    if (text) return "no error";
    EXPECT_EQ(text.error().code, ErrorCode::kParseError);
    const std::string start = "[io] " + (folder_ / "file").string() + ": ";
    EXPECT_THAT(text.error().message, testing::StartsWith(start));
    return text.error().message.substr(start.size());
  }

  std::filesystem::path folder_;
};

constexpr const char* kTooEarly =
    "the compressed data ends too early. Try: fetch the file again";
constexpr const char* kDamaged =
    "the compressed data is damaged. Try: fetch the file again";

TEST_F(InputFileTest, PlainTextIsReadAsItIs) {
  const std::string text("one line\r\nzero \0 and \xff\n", 22);
  EXPECT_EQ(*read(text), text);
  EXPECT_EQ(*read("x"), "x");
  EXPECT_EQ(*read(""), "");
  // Starts of the formats' marks are no marks.
  EXPECT_EQ(*read("\x1f"), "\x1f");
  EXPECT_EQ(*read("\xfd"
                  "7zXZ"),
            "\xfd"
            "7zXZ");
}

TEST_F(InputFileTest, GzipAndXzAreToldByTheirFirstBytes) {
  EXPECT_EQ(*read(gzip_of("some text")), "some text");
  EXPECT_EQ(*read(gzip_of("")), "");
  EXPECT_EQ(*read(xz_of("some text")), "some text");
  EXPECT_EQ(*read(xz_of("")), "");
  // Once only: what is inside is given as it is.
  EXPECT_EQ(*read(gzip_of(xz_of("twice"))), xz_of("twice"));
}

TEST_F(InputFileTest, MembersFollowEachOther) {
  EXPECT_EQ(*read(gzip_of("one ") + gzip_of("") + gzip_of("two")), "one two");
  EXPECT_EQ(*read(xz_of("one ") + xz_of("") + xz_of("two")), "one two");
  // Padding that the format allows.
  EXPECT_EQ(*read(xz_of("one ") + std::string(8, '\0') + xz_of("two")),
            "one two");
}

TEST_F(InputFileTest, FilesMayBeLargerThanTheBuffers) {
  const std::string text = long_text(1'000'001);
  EXPECT_EQ(*read(text), text);
  EXPECT_EQ(*read(gzip_of(text)), text);
  EXPECT_EQ(*read(xz_of(text)), text);
  EXPECT_EQ(*read(gzip_of(text) + gzip_of(text)), text + text);
  // 8 MiB out of some 8 KiB: much more out than in.
  const std::string zeros(std::size_t{1} << 23, '0');
  EXPECT_EQ(*read(gzip_of(zeros)), zeros);
  EXPECT_EQ(*read(xz_of(zeros)), zeros);
}

// Every way in which the end of the stored bytes can meet that of a buffer.
TEST_F(InputFileTest, SizesAroundTheBuffers) {
  constexpr std::size_t kBuffer = std::size_t{1} << 18;
  const std::string text = long_text(2 * kBuffer + 1);
  for (const std::size_t size :
       {kBuffer - 1, kBuffer, kBuffer + 1, 2 * kBuffer, 2 * kBuffer + 1}) {
    const std::string part = text.substr(0, size);
    EXPECT_EQ(*read(part), part);
    EXPECT_EQ(*read(gzip_of(part)), part);
    EXPECT_EQ(*read(xz_of(part)), part);
  }
  // A first member that fills the buffer exactly: its name is as long as
  // needed.
  std::string member = gzip_of("first ");
  constexpr char kHasName = 8;
  member[3] = kHasName;
  member.insert(10, std::string(kBuffer - member.size() - 1, 'n') + '\0');
  ASSERT_EQ(member.size(), kBuffer);
  EXPECT_EQ(*read(member), "first ");
  EXPECT_EQ(*read(member + gzip_of("second")), "first second");
  EXPECT_EQ(reason(member + "second"), kDamaged);
}

TEST_F(InputFileTest, TruncatedDataIsAnError) {
  const std::string text = long_text(800);
  const std::string gzip = gzip_of(text);
  for (std::size_t size = 2; size < gzip.size(); ++size) {
    ASSERT_EQ(reason(gzip.substr(0, size)), kTooEarly) << size;
  }
  const std::string xz = xz_of(text);
  for (std::size_t size = 6; size < xz.size(); ++size) {
    ASSERT_EQ(reason(xz.substr(0, size)), kTooEarly) << size;
  }
  EXPECT_EQ(reason(gzip + gzip.substr(0, 20)), kTooEarly);
  EXPECT_EQ(reason(xz + xz.substr(0, 20)), kTooEarly);
  const std::string large = long_text(2'000'000);
  EXPECT_EQ(reason(gzip_of(large).substr(0, 900'000)), kTooEarly);
  EXPECT_EQ(reason(xz_of(large).substr(0, 900'000)), kTooEarly);
}

// A flipped bit never changes what is read: it is an error, but for the few
// bits that say nothing about the content.
TEST_F(InputFileTest, DamagedDataIsAnError) {
  const std::string text = long_text(600);
  constexpr std::size_t kGzipHeader = 10;  // time, system: not looked at
  constexpr std::size_t kXzMark = 6;
  for (const auto& [stored, first] :
       {std::pair{gzip_of(text), kGzipHeader}, {xz_of(text), kXzMark}}) {
    std::size_t unnoticed = 0;
    for (std::size_t at = first; at < stored.size(); ++at) {
      std::string damaged = stored;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << (at % 8)));
      const Result<std::string> got = read(damaged);
      if (got) {
        ASSERT_EQ(*got, text) << at;
        ++unnoticed;
        continue;
      }
      const std::string said = reason(damaged);
      ASSERT_TRUE(said == kDamaged || said == kTooEarly) << at << ": " << said;
    }
    EXPECT_LE(unnoticed, 1U);  // filling after the last bit of a member
  }
  // The last bytes: sums that do not fit, though nothing is missing.
  std::string gzip = gzip_of(text);
  gzip.back() ^= 1;
  EXPECT_EQ(reason(gzip), kDamaged);
  std::string xz = xz_of(text);
  xz.back() ^= 1;
  EXPECT_EQ(reason(xz), kDamaged);
}

TEST_F(InputFileTest, TrailingGarbageIsAnError) {
  EXPECT_EQ(reason(gzip_of("text") + "garbage"), kDamaged);
  EXPECT_EQ(reason(gzip_of("text") + std::string(16, '\0')), kDamaged);
  EXPECT_EQ(reason(xz_of("text") + "garbage that is long enough"), kDamaged);
  // One byte could be the start of a member.
  EXPECT_EQ(reason(gzip_of("text") + "\x1f"), kTooEarly);
}

TEST_F(InputFileTest, WhatWasReadBeforeTheDamageIsGiven) {
  const auto file = InputFile::open(path_of(gzip_of("text") + "garbage"));
  ASSERT_TRUE(file.has_value());
  EXPECT_FALSE((*file)->error().has_value());
  std::istream stream(file->get());
  std::string word;
  stream >> word;
  EXPECT_EQ(word, "text");
  EXPECT_TRUE(stream.eof());
  ASSERT_TRUE((*file)->error().has_value());
  EXPECT_THAT((*file)->error()->message, HasSubstr(kDamaged));
  // And it stays at its end.
  EXPECT_EQ((*file)->sgetc(), std::char_traits<char>::eof());
}

TEST_F(InputFileTest, NoFileAndFoldersAreRefused) {
  const std::string absent = folder_ / "absent";
  const auto missing = InputFile::open(absent);
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, ErrorCode::kIoError);
  EXPECT_EQ(missing.error().message,
            "[io] cannot read " + absent + ": No such file or directory");
  const auto folder = InputFile::open(folder_.string());
  ASSERT_FALSE(folder.has_value());
  EXPECT_EQ(folder.error().code, ErrorCode::kIoError);
  EXPECT_EQ(folder.error().message,
            "[io] cannot read " + folder_.string() + ": it is a folder");
}

TEST_F(InputFileTest, TheHeadIsReadAgain) {
  const std::string text = long_text(1'000'000);
  for (const std::string& stored : {text, gzip_of(text), xz_of(text)}) {
    const auto file = InputFile::open(path_of(stored));
    ASSERT_TRUE(file.has_value());
    const std::string head((*file)->head());
    EXPECT_GE(head.size(), 4000U);
    EXPECT_EQ(head, text.substr(0, head.size()));
    EXPECT_EQ((*file)->head(), head);
    EXPECT_EQ(*read_all(**file), text);
  }
  // "All there are", in however many members.
  const auto parts = InputFile::open(path_of(gzip_of("{") + gzip_of("}")));
  EXPECT_EQ((*parts)->head(), "{}");
  EXPECT_EQ(*read_all(**parts), "{}");
  const auto empty = InputFile::open(path_of(""));
  EXPECT_EQ((*empty)->head(), "");
  EXPECT_EQ(*read_all(**empty), "");
}

}  // namespace
}  // namespace shardwright
