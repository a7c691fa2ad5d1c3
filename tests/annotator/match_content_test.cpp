// Finds parameters by the bytes of tensors, which may be transposed, cast, concatenated, split or have reordered gates.
#include <numeric>

#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include "annotator/match/tensor_content.h"
#include "schema/files/files.h"

namespace whence {

using match::ParameterContent;
using match::StructureTensor;
using match::TensorSource;

namespace {

using How = TensorSource::How;
using Numbers = std::vector<std::int32_t>;  // used as the bytes of float32 elements

Numbers consecutive(std::int32_t first, std::size_t count) {
  Numbers numbers(count);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

std::string_view bytes_of(const Numbers& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(std::int32_t)};
}

class MatchContent : public ::testing::Test {
 protected:
  void parameter(const Numbers& content, std::vector<std::int64_t> dims) {
    match::ReferenceParameter entry;
    entry.dims = std::move(dims);
    entry.dtype = DType::float32;
    entry.digests.content = digest_of(content.data(), content.size() * sizeof(std::int32_t));
    reference.parameters.add(entry);
  }

  static StructureTensor tensor(const Numbers& content, std::vector<std::int64_t> dims) {
    StructureTensor result;
    result.data_type = onnx::TensorProto::FLOAT;
    result.dims = std::move(dims);
    result.bytes = bytes_of(content);
    return result;
  }

  // Returns the sources like "0:bytes 2:part".
  static std::string text(const std::vector<TensorSource>& sources) {
    std::string result;
    for (const TensorSource& source : sources) {
      result += (result.empty() ? "" : " ") + std::to_string(source.parameter.number()) +
                (source.how == How::bytes  ? ":bytes"
                 : source.how == How::part ? ":part"
                                           : ":other");
    }
    return result;
  }

  std::string find(const Numbers& content, std::vector<std::int64_t> dims) {
    return text(ParameterContent(reference).find(tensor(content, std::move(dims))));
  }

  match::Reference reference;
};

TEST_F(MatchContent, FindsBlocksOfRowsAndColumns) {
  parameter({1, 2, 3, 4}, {2, 2});
  parameter({5, 6, 7, 8}, {2, 2});
  EXPECT_EQ(find({1, 2, 3, 4}, {2, 2}), "0:bytes");
  EXPECT_EQ(find({1, 2, 3, 4, 5, 6, 7, 8}, {4, 2}), "0:part 1:part");
  EXPECT_EQ(find({1, 2, 5, 6, 3, 4, 7, 8}, {2, 4}), "0:part 1:part");
  EXPECT_EQ(find({1, 2, 3, 5}, {2, 2}), "");
}

// PyTorch stores the gates of an LSTM as i f c o, ONNX as i o f c. The tensor of a bidirectional layer has both
// directions.
TEST_F(MatchContent, FindsBothDirectionsOfARecurrentLayer) {
  parameter(consecutive(1, 8), {4, 2});
  parameter(consecutive(11, 8), {4, 2});
  EXPECT_EQ(find({1, 2, 7, 8, 3, 4, 5, 6}, {1, 4, 2}), "0:bytes");
  EXPECT_EQ(find({1, 2, 7, 8, 3, 4, 5, 6, 11, 12, 17, 18, 13, 14, 15, 16}, {2, 4, 2}), "0:part 1:part");
}

TEST_F(MatchContent, FindsCastsOfTheTranspose) {
  match::ReferenceParameter entry;
  entry.dims = {2, 3};
  entry.dtype = DType::float32;
  const std::vector<std::uint16_t> cast = {1, 2, 3, 4, 5, 6}, transposed = {1, 4, 2, 5, 3, 6};
  entry.digests.bfloat16 = digest_of(cast.data(), 12);
  reference.parameters.add(entry);
  for (const auto& [content, dims] :
       {std::pair(&cast, std::vector<std::int64_t>{2, 3}), std::pair(&transposed, std::vector<std::int64_t>{3, 2})}) {
    StructureTensor narrow;
    narrow.data_type = onnx::TensorProto::BFLOAT16;
    narrow.dims = dims;
    narrow.bytes = {reinterpret_cast<const char*>(content->data()), 12};
    EXPECT_EQ(text(ParameterContent(reference).find(narrow)), "0:bytes");
  }
}

// Both 16-bit types represent 1.5, -2, 2^-24 (subnormal in float16) and infinity exactly.
TEST_F(MatchContent, FindsTensorsWidenedToFloat32) {
  const std::vector<std::uint32_t> numbers = {0x3fc00000, 0xc0000000, 0x33800000, 0x7f800000};
  const std::vector<std::uint16_t> bfloat = {0x3fc0, 0xc000, 0x3380, 0x7f80}, half = {0x3e00, 0xc000, 0x0001, 0x7c00};
  StructureTensor wide;
  wide.data_type = onnx::TensorProto::FLOAT;
  wide.dims = {4};
  wide.bytes = {reinterpret_cast<const char*>(numbers.data()), 16};
  for (const auto& [dtype, bits] : {std::pair(DType::bfloat16, &bfloat), std::pair(DType::float16, &half)}) {
    reference = {};
    match::ReferenceParameter entry;
    entry.dims = {4};
    entry.dtype = dtype;
    entry.digests.content = digest_of(bits->data(), 8);
    reference.parameters.add(entry);
    EXPECT_EQ(text(ParameterContent(reference).find(wide)), "0:bytes") << name_of(dtype);
    std::vector<std::uint32_t> finer = numbers;
    finer[0] += 1;
    StructureTensor different = wide;
    different.bytes = {reinterpret_cast<const char*>(finer.data()), 16};
    EXPECT_EQ(text(ParameterContent(reference).find(different)), "") << name_of(dtype);
  }
}

TEST_F(MatchContent, MatchesZerosOnlyToParametersOfEqualSize) {
  parameter(Numbers(4), {4});
  const std::vector<TensorSource> sources = ParameterContent(reference).find(tensor(Numbers(4), {1, 4}));
  ASSERT_EQ(text(sources), "0:bytes");
  EXPECT_TRUE(sources[0].is_common);
  EXPECT_GT(sources[0].candidates, 1);
  EXPECT_EQ(find(Numbers(4), {2, 2}), "");
  EXPECT_EQ(find(Numbers(8), {8}), "");
  EXPECT_EQ(find({0, 0, 0, 0, 1, 2, 3, 4}, {8}), "");
}

TEST_F(MatchContent, ComparesOnlyEqualTypes) {
  parameter({7, 0, 5, 0, 9, 0, 2, 0, 4, 0, 1, 0, 8, 0, 3, 0, 6, 0, 11, 0}, {20});
  const std::vector<std::int64_t> elements = {7, 5, 9, 2, 4, 1, 8, 3, 6, 11};
  StructureTensor integers;
  integers.data_type = onnx::TensorProto::INT64;
  integers.dims = {10};
  integers.bytes = {reinterpret_cast<const char*>(elements.data()), 80};
  EXPECT_EQ(text(ParameterContent(reference).find(integers)), "");
}

// Does not find an int64 parameter with content that any graph may have: few numbers, one repeated number, a range.
TEST_F(MatchContent, IgnoresCommonIntegers) {
  const std::vector<std::vector<std::int64_t>> rows = {{7, 5, 9, 2, 4, 1, 8, 3, 6, 11},
                                                       {7, 5, 9, 2},
                                                       std::vector<std::int64_t>(12, 3),
                                                       {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}};
  for (const auto& row : rows) {
    reference = {};
    match::ReferenceParameter entry;
    entry.dims = {static_cast<std::int64_t>(row.size())};
    entry.dtype = DType::int64;
    entry.digests.content = digest_of(row.data(), row.size() * 8);
    reference.parameters.add(entry);
    StructureTensor integers;
    integers.data_type = onnx::TensorProto::INT64;
    integers.dims = entry.dims;
    integers.bytes = {reinterpret_cast<const char*>(row.data()), row.size() * 8};
    EXPECT_EQ(text(ParameterContent(reference).find(integers)), row == rows[0] ? "0:bytes" : "");
  }
}

TEST_F(MatchContent, FindsPiecesOfASplitWeight) {
  parameter(consecutive(1, 8), {4, 2});
  const Numbers top = {1, 2, 3, 4}, bottom = {5, 6, 7, 8}, left = {1, 3, 5, 7}, other = {9, 9, 9, 9};
  std::vector<StructureTensor> tensors = {tensor(other, {2, 2}), tensor(top, {2, 2}), tensor(bottom, {2, 2})};
  std::vector<std::vector<TensorSource>> sources(3);
  ParameterContent(reference).find_split(tensors, sources);
  EXPECT_EQ(text(sources[0]), "");
  EXPECT_EQ(text(sources[1]), "0:bytes");
  EXPECT_EQ(text(sources[2]), "0:bytes");

  const Numbers right = {2, 4, 6, 8};  // split into columns
  tensors = {tensor(left, {4, 1}), tensor(right, {4, 1})};
  sources.assign(2, {});
  ParameterContent(reference).find_split(tensors, sources);
  EXPECT_EQ(text(sources[0]) + text(sources[1]), "0:bytes0:bytes");
}

}  // namespace
}  // namespace whence
