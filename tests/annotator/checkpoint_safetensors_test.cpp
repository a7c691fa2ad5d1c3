// Reads the tensors of safetensors files, and refuses headers that contradict the file.
#include <fstream>

#include <gtest/gtest.h>

#include "annotator/checkpoint/safetensors.h"
#include "tests/schema/expect_error.h"
#include "tests/schema/temporary_folder.h"

namespace whence {

using checkpoint::is_safetensors;
using checkpoint::read_safetensors;

namespace {

std::string with_length(const std::string& header, std::uint64_t length) {
  std::string text;
  for (int i = 0; i < 8; ++i) text += static_cast<char>(length >> (8 * i));
  return text + header;
}

std::vector<checkpoint::CheckpointTensor> read_header(const std::string& header, const std::string& bytes,
                                                      Diagnostics& notes) {
  const TemporaryFolder folder;
  std::ofstream(folder / "w.safetensors", std::ios::binary) << with_length(header, header.size()) << bytes;
  return read_safetensors(MappedFile::open(folder / "w.safetensors"), notes);
}

std::string entry(const std::string& dtype, const std::string& shape, int first, int last) {
  return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":[)" + std::to_string(first) + "," +
         std::to_string(last) + "]}";
}

TEST(Safetensors, ReadsTensorsInTheOrderOfTheHeader) {
  Diagnostics notes;
  const auto tensors =
      read_header(R"({"__metadata__":{"format":"pt"},"b":)" + entry("F32", "[1,2]", 4, 12) + R"(,"a":)" +
                      entry("BF16", "[]", 0, 2) + R"(,"none":)" + entry("I64", "[0,3]", 12, 12) + "}",
                  "abcdefghijkl", notes);
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_EQ(tensors[0].name, "b");
  EXPECT_EQ(tensors[0].data.dtype, DType::float32);
  EXPECT_EQ(tensors[0].data.shape, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(as_text(*tensors[0].data.bytes.in_memory()), "efghijkl");
  EXPECT_EQ(tensors[1].data.dtype, DType::bfloat16);
  EXPECT_EQ(as_text(*tensors[1].data.bytes.in_memory()), "ab");
  EXPECT_EQ(tensors[2].data.bytes.size(), 0u);
  EXPECT_TRUE(notes.empty());
}

TEST(Safetensors, SkipsUnknownDtypes) {
  Diagnostics notes;
  const auto tensors =
      read_header(R"({"a":)" + entry("F4", "[1]", 0, 1) + R"(,"b":)" + entry("U8", "[2]", 1, 3) + "}", "xyz", notes);
  ASSERT_EQ(tensors.size(), 1u);
  EXPECT_EQ(tensors[0].name, "b");
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0].code, Code::unsupported_feature);
}

TEST(Safetensors, RefusesInvalidHeaders) {
  Diagnostics notes;
  const std::string invalid[] = {entry("F32", "[2]", 0, 4),
                                 entry("F32", "[1]", 4, 0),
                                 entry("F32", "[-1]", 0, 4),
                                 entry("F32", "1", 0, 4),
                                 entry("F32", "[1.5]", 0, 4),
                                 entry("F32", "[1]", -4, 0),
                                 R"({"dtype":"F32"})",
                                 R"({"dtype":1,"shape":[],"data_offsets":[0,4]})",
                                 R"({"dtype":"F32","shape":[],"data_offsets":[4]})"};
  for (const std::string& text : invalid) {
    expect_error(Code::corrupt_file, [&] { read_header(R"({"a":)" + text + "}", "abcdefgh", notes); });
  }
  expect_error(Code::corrupt_file, [&] { read_header("[1]", "", notes); });
  expect_error(Code::truncated_file,
               [&] { read_header(R"({"a":)" + entry("F32", "[3]", 0, 12) + "}", "abcdefgh", notes); });
}

TEST(Safetensors, RefusesTruncatedHeaders) {
  const TemporaryFolder folder;
  Diagnostics notes;
  for (const std::string& content : {with_length("{}", 3), std::string("{}")}) {
    std::ofstream(folder / "w.safetensors", std::ios::binary) << content;
    expect_error(Code::truncated_file, [&] { read_safetensors(MappedFile::open(folder / "w.safetensors"), notes); });
  }
}

TEST(Safetensors, AreDetectedByTheirFirstBytes) {
  EXPECT_TRUE(is_safetensors(with_length("{}", 2)));
  EXPECT_TRUE(is_safetensors(with_length("{", 100'000'000)));
  EXPECT_FALSE(is_safetensors(with_length("{", 100'000'001)));
  EXPECT_FALSE(is_safetensors(with_length("[]", 2)));
  EXPECT_FALSE(is_safetensors(with_length("", 0)));
}

}  // namespace
}  // namespace whence
