// Which bytes of a file show which parameter: as they are, transposed, narrower, in blocks, in pieces, gates reordered.
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
using Numbers = std::vector<std::int32_t>;  // the content does not matter, 32-bit integers are easy to write down

Numbers counted(std::int32_t first, std::size_t count) {
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
    entry.element_size = sizeof(std::int32_t);
    entry.digests.content = digest_of(content.data(), content.size() * sizeof(std::int32_t));
    reference.parameters.add(entry);
  }

  static StructureTensor tensor(const Numbers& content, std::vector<std::int64_t> dims) {
    StructureTensor made;
    made.data_type = onnx::TensorProto::INT32;
    made.dims = std::move(dims);
    made.bytes = bytes_of(content);
    return made;
  }

  // "0:bytes 2:part"
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

// PyTorch has the gates of an LSTM as i f c o, ONNX as i o f c; a bidirectional layer's tensor has both directions.
TEST_F(MatchContent, FindsBothDirectionsOfARecurrentLayer) {
  parameter(counted(1, 8), {4, 2});
  parameter(counted(11, 8), {4, 2});
  EXPECT_EQ(find({1, 2, 7, 8, 3, 4, 5, 6}, {1, 4, 2}), "0:bytes");
  EXPECT_EQ(find({1, 2, 7, 8, 3, 4, 5, 6, 11, 12, 17, 18, 13, 14, 15, 16}, {2, 4, 2}), "0:part 1:part");
}

TEST_F(MatchContent, FindsCastsAlsoOfTheTranspose) {
  match::ReferenceParameter entry;
  entry.dims = {2, 3};
  entry.element_size = sizeof(float);
  const std::vector<std::uint16_t> cast = {1, 2, 3, 4, 5, 6}, turned = {1, 4, 2, 5, 3, 6};
  entry.digests.bfloat16 = digest_of(cast.data(), 12);
  reference.parameters.add(entry);
  for (const auto& [content, dims] :
       {std::pair(&cast, std::vector<std::int64_t>{2, 3}), std::pair(&turned, std::vector<std::int64_t>{3, 2})}) {
    StructureTensor narrow;
    narrow.data_type = onnx::TensorProto::BFLOAT16;
    narrow.dims = dims;
    narrow.bytes = {reinterpret_cast<const char*>(content->data()), 12};
    EXPECT_EQ(text(ParameterContent(reference).find(narrow)), "0:bytes");
  }
}

TEST_F(MatchContent, FindsPiecesOfASplitWeight) {
  parameter(counted(1, 8), {4, 2});
  const Numbers top = {1, 2, 3, 4}, bottom = {5, 6, 7, 8}, left = {1, 3, 5, 7}, other = {9, 9, 9, 9};
  std::vector<StructureTensor> tensors = {tensor(other, {2, 2}), tensor(top, {2, 2}), tensor(bottom, {2, 2})};
  std::vector<std::vector<TensorSource>> found(3);
  ParameterContent(reference).find_split(tensors, found);
  EXPECT_EQ(text(found[0]), "");
  EXPECT_EQ(text(found[1]), "0:bytes");
  EXPECT_EQ(text(found[2]), "0:bytes");

  const Numbers right = {2, 4, 6, 8};  // columns, each a tensor
  tensors = {tensor(left, {4, 1}), tensor(right, {4, 1})};
  found.assign(2, {});
  ParameterContent(reference).find_split(tensors, found);
  EXPECT_EQ(text(found[0]) + text(found[1]), "0:bytes0:bytes");
}

}  // namespace
}  // namespace whence
