#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <iterator>
#include <string>

#include "shardwright/base/check.h"
#include "shardwright/base/json.h"
#include "shardwright/base/permutation.h"
#include "shardwright/base/units.h"

namespace shardwright {
namespace {

TEST(Units, ParseBytes) {
  EXPECT_EQ(parse_bytes("70GiB").value, 70LL << 30);
  EXPECT_EQ(parse_bytes("1.5 kb").value, 1500);
  EXPECT_EQ(parse_bytes("12").value, 12);
  EXPECT_EQ(parse_bytes("12 parsecs").value, -1);
  EXPECT_EQ(parse_bytes("-1").value, -1);
  EXPECT_EQ(parse_bytes("nan").value, -1);
}

TEST(Units, Human) {
  EXPECT_EQ(human(Bytes(312)), "312 B");
  EXPECT_EQ(human(Bytes(3LL << 29)), "1.50 GiB");
  EXPECT_EQ(human(Seconds(0.00123)), "1.230 ms");
}

TEST(Sha256, KnownVectors) {
  EXPECT_EQ(sha256_hex(""),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Json, ErrorsNameTheKey) {
  const Json object = Json::parse(R"({"size": "four"})");
  const auto missing = get_int(object, "count", "mesh");
  ASSERT_FALSE(missing.has_value());
  EXPECT_NE(missing.error().message.find("'count' is missing"),
            std::string::npos);
  const auto wrong = get_int(object, "size", "mesh");
  ASSERT_FALSE(wrong.has_value());
  EXPECT_NE(wrong.error().message.find("whole number"), std::string::npos);
  EXPECT_FALSE(parse_json("{\"a\": ", "plan").has_value());
}

TEST(Json, NumbersThatDoNotFitAreRefused) {
  const Json object = Json::parse(
      R"({"id": 4294967296, "ids": [1, -4294967295], "least": -2147483648,
          "size": 9223372036854775808, "sizes": [9223372036854775808]})");
  EXPECT_FALSE(get_index(object, "id", "graph").has_value());
  EXPECT_FALSE(get_indices(object, "ids", "graph").has_value());
  EXPECT_EQ(get_index(object, "least", "graph").value(), -2147483648);
  EXPECT_EQ(get_int(object, "id", "graph").value(), 4294967296);
  EXPECT_FALSE(get_int(object, "size", "graph").has_value());
  EXPECT_FALSE(get_ints(object, "sizes", "graph").has_value());
}

TEST(Json, DeepNestingIsRefused) {
  const auto nested = [](int depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_TRUE(parse_json(nested(kMaxJsonDepth), "plan").has_value());
  EXPECT_FALSE(parse_json(nested(kMaxJsonDepth + 1), "plan").has_value());
  // Brackets in a text, behind an escaped quote too, are no nesting.
  const std::string text = "\"\\\"" + std::string(1000, '{') + "\"";
  EXPECT_TRUE(parse_json(text, "plan").has_value());
}

TEST(Json, FilesRoundTrip) {
  const std::string path = testing::TempDir() + "sw_base_test.json";
  ASSERT_TRUE(write_text_file(path, "{\"b\": 1, \"a\": 2}").has_value());
  const auto read = read_json_file(path);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->dump(), "{\"b\":1,\"a\":2}");
  std::remove(path.c_str());
  EXPECT_EQ(read_json_file(path).error().code, ErrorCode::kIoError);
}

TEST(Json, WhatIsNoFileIsNeverReplaced) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(testing::TempDir()) / "sw_base_test_files";
  fs::remove_all(folder);
  fs::create_directory(folder);
  EXPECT_EQ(write_text_file(folder.string(), "text").error().code,
            ErrorCode::kIoError);
  const Error absent =
      write_text_file(folder / "absent" / "file", "text").error();
  EXPECT_EQ(absent.code, ErrorCode::kIoError);
  EXPECT_NE(
      absent.message.find("Try: mkdir -p " + (folder / "absent").string()),
      std::string::npos)
      << absent.message;
  EXPECT_EQ(read_text_file(folder.string()).error().code, ErrorCode::kIoError);
  // A link stays a link; what it names gets the text.
  ASSERT_TRUE(write_text_file(folder / "file", "old"));
  fs::create_symlink("file", folder / "link");
  ASSERT_TRUE(write_text_file(folder / "link", "new"));
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(*read_text_file(folder / "file"), "new");
  // A pipe stays a pipe, as a device would.
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_TRUE(write_text_file(pipe, "text"));
  EXPECT_TRUE(fs::is_fifo(pipe));
  close(reader);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 3);
  fs::remove_all(folder);
}

TEST(Json, ReasonsCanBePrinted) {
  const std::string message = parse_json("\xff\x01", "plan").error().message;
  EXPECT_EQ(message.find("json.exception"), std::string::npos) << message;
  for (const char c : message) EXPECT_TRUE(c >= ' ' && c <= '~') << message;
}

TEST(Permutation, EachNumberOnce) {
  EXPECT_EQ(as_permutation({1, 0, 2}, 3), (std::vector<std::int32_t>{1, 0, 2}));
  EXPECT_EQ(as_permutation({}, 0), std::vector<std::int32_t>());
  for (const std::vector<std::int64_t>& wrong :
       {std::vector<std::int64_t>{0, 1}, {0, 1, 1}, {0, 1, 3}, {0, 1, -1}}) {
    EXPECT_FALSE(as_permutation(wrong, 3));
  }
}

TEST(Check, ThrowsInternalError) {
  EXPECT_THROW(SW_CHECK(1 == 2, "arithmetic"), InternalError);
}

}  // namespace
}  // namespace shardwright
