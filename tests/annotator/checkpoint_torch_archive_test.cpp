// Reads the zips that torch.save writes: selects the table with the model, and reads names and elements of tensors.
#include <cstring>
#include <fstream>

#include <gtest/gtest.h>

#include "annotator/checkpoint/torch_archive.h"
#include "tests/annotator/pickle_builder.h"
#include "tests/fuzz/stored_zip.h"
#include "tests/schema/expect_error.h"
#include "tests/schema/temporary_folder.h"

namespace whence {

using checkpoint::CheckpointTensor;
using checkpoint::read_torch_archive;
using pickles::dict;
using pickles::tensor_call;

namespace {

std::string floats(const std::vector<float>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float)};
}

std::vector<float> floats_in(const CheckpointTensor& tensor) {
  const auto bytes = tensor.data.bytes.in_memory().value();
  std::vector<float> numbers(bytes.size() / sizeof(float));
  std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(float));
  return numbers;
}

class TorchArchive : public ::testing::Test {
 protected:
  std::string write(const fuzz::ZipMembers& members) {
    std::ofstream(folder_ / "w.pt", std::ios::binary) << fuzz::stored_zip(members);
    return folder_ / "w.pt";
  }
  // Reads a file with this pickle and a storage "0" that contains 0, 1, 2, 3, 4, 5.
  std::vector<CheckpointTensor> read(const std::string& value) {
    const std::string pickle = pickles::pickle(value), storage = floats({0, 1, 2, 3, 4, 5});
    return read_torch_archive(write({{"w/data.pkl", pickle}, {"w/data/0", storage}}), notes_);
  }

  TemporaryFolder folder_;
  Diagnostics notes_;
};

TEST_F(TorchArchive, ReadsElementsByOffsetsAndStrides) {
  const auto tensors = read(dict({{"rows", tensor_call("0", "FloatStorage", 0, {2, 3}, {3, 1})},
                                  {"transposed", tensor_call("0", "FloatStorage", 0, {3, 2}, {1, 3})},
                                  {"end", tensor_call("0", "FloatStorage", 4, {2}, {1})},
                                  {"column", tensor_call("0", "FloatStorage", 1, {2, 1}, {3, 5})},
                                  {"number", tensor_call("0", "FloatStorage", 5, {}, {})}}));
  ASSERT_EQ(tensors.size(), 5u);
  EXPECT_EQ(floats_in(tensors[0]), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(floats_in(tensors[1]), (std::vector<float>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(tensors[1].data.shape, (std::vector<std::int64_t>{3, 2}));
  EXPECT_EQ(floats_in(tensors[2]), (std::vector<float>{4, 5}));
  EXPECT_EQ(floats_in(tensors[3]), (std::vector<float>{1, 4}));
  EXPECT_EQ(floats_in(tensors[4]), (std::vector<float>{5}));
  EXPECT_EQ(tensors[0].data.bytes.file(), folder_ / "w.pt");  // not copied
  EXPECT_TRUE(notes_.empty());
}

TEST_F(TorchArchive, FurtherNamesOfATensorAreAliases) {
  const std::string tensor = tensor_call("0", "FloatStorage", 0, {6}, {1});
  const auto tensors = read(dict({{"embed", tensor}, {"head", tensor}}));
  ASSERT_EQ(tensors.size(), 1u);
  EXPECT_EQ(tensors[0].name, "embed");
  EXPECT_EQ(tensors[0].aliases, (std::vector<std::string>{"head"}));
}

TEST_F(TorchArchive, ReadsTheLargestTable) {
  const std::string a = tensor_call("0", "FloatStorage", 0, {1}, {1}),
                    b = tensor_call("0", "FloatStorage", 1, {1}, {1});
  auto tensors = read(dict({{"optimizer", dict({{"step", a}})}, {"model", dict({{"a", a}, {"b", b}})}}));
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors[0].name, "a");
  EXPECT_TRUE(notes_.empty());
}

TEST_F(TorchArchive, RefusesTwoTablesOfOneSize) {
  const std::string a = tensor_call("0", "FloatStorage", 0, {1}, {1}),
                    b = tensor_call("0", "FloatStorage", 1, {1}, {1});
  expect_error(Code::wrong_kind, [&] { read(dict({{"model", dict({{"a", a}})}, {"average", dict({{"b", b}})}})); });
}

// Returns `count` nested tables {"t": {"t": ...}} around a tensor.
std::string in_tables(int count, const std::string& tensor) {
  return count == 0 ? tensor : dict({{"t", in_tables(count - 1, tensor)}});
}

TEST_F(TorchArchive, FindsTablesUpToFourLevelsDeep) {
  const std::string tensor = tensor_call("0", "FloatStorage", 0, {6}, {1});
  EXPECT_EQ(read(in_tables(5, tensor)).size(), 1u);
  expect_error(Code::wrong_kind, [&] { read(in_tables(6, tensor)); });
}

TEST_F(TorchArchive, NamesTheTensorsOfAModelByPath) {
  const auto module = [](const pickles::Entries& attributes) {
    return pickles::call(pickles::global("net", "Block"), ")") + dict(attributes) + "b";
  };
  const std::string leaf = module({{"_parameters", dict({{"weight", tensor_call("0", "FloatStorage", 0, {2}, {1})}})},
                                   {"_buffers", dict({{"mean", tensor_call("0", "FloatStorage", 2, {2}, {1})}})},
                                   {"cache", tensor_call("0", "FloatStorage", 4, {2}, {1})},
                                   {"_modules", dict({})}});
  const auto tensors = read(module({{"_parameters", dict({})}, {"_modules", dict({{"layer", leaf}})}}));
  ASSERT_EQ(tensors.size(), 2u);  // "cache" is neither a parameter nor a buffer
  EXPECT_EQ(tensors[0].name, "layer.weight");
  EXPECT_EQ(tensors[1].name, "layer.mean");
}

TEST_F(TorchArchive, ReadsDtypesFromStorageClasses) {
  const auto tensors = read(dict({{"half", tensor_call("0", "HalfStorage", 2, {2}, {1})},
                                  {"byte", tensor_call("0", "ByteStorage", 3, {4}, {1})},
                                  {"long", tensor_call("0", "LongStorage", 1, {2}, {1})},
                                  {"other", tensor_call("0", "QInt8Storage", 0, {1}, {1})}}));
  ASSERT_EQ(tensors.size(), 3u);  // "other" has an unknown class
  EXPECT_EQ(tensors[0].data.dtype, DType::float16);
  EXPECT_EQ(tensors[1].data.dtype, DType::uint8);
  EXPECT_EQ(tensors[1].data.bytes.size(), 4u);
  EXPECT_EQ(tensors[2].data.dtype, DType::int64);
}

TEST_F(TorchArchive, RefusesATensorThatExceedsItsStorage) {
  for (const std::string& tensor :
       {tensor_call("0", "FloatStorage", 0, {7}, {1}), tensor_call("0", "FloatStorage", 5, {2}, {1}),
        tensor_call("0", "FloatStorage", 7, {0}, {1}), tensor_call("0", "FloatStorage", 0, {2, 2}, {1, 5})}) {
    expect_error(Code::corrupt_file, [&] { read(dict({{"w", tensor}})); });
  }
  EXPECT_EQ(read(dict({{"w", tensor_call("0", "FloatStorage", 6, {0}, {1})}})).size(),
            1u);  // an empty tensor at the end
}

TEST_F(TorchArchive, SkipsATensorThatRepeatsItsElements) {
  EXPECT_TRUE(read(dict({{"wide", tensor_call("0", "FloatStorage", 0, {9, 6}, {0, 1})}})).empty());
  EXPECT_EQ(notes_.size(), 1u);
}

TEST_F(TorchArchive, RefusesOtherZips) {
  expect_error(Code::wrong_kind, [&] { read_torch_archive(write({{"w/model.json", "{}"}}), notes_); });
  expect_error(Code::wrong_kind, [&] { read("K\x01"); });
  const std::string pickle = pickles::pickle(dict({}));
  expect_error(Code::unsupported_feature,
               [&] { read_torch_archive(write({{"w/data.pkl", pickle}, {"w/byteorder", "big"}}), notes_); });
  // Reads the outermost data.pkl, and not mydata.pkl.
  const std::string valid = pickles::pickle(dict({{"w", tensor_call("0", "FloatStorage", 0, {1}, {1})}}));
  const auto path =
      write({{"w/extra/data.pkl", "."}, {"w/data.pkl", valid}, {"mydata.pkl", "."}, {"w/data/0", "abcd"}});
  EXPECT_EQ(read_torch_archive(path, notes_).size(), 1u);
}

}  // namespace
}  // namespace whence
