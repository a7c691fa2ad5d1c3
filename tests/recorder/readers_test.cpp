// The recorder's readers that do not use LibTorch: pickle checks, zip members and NumPy files.
#include <fstream>

#include <gtest/gtest.h>

#include "recorder/archive/pickle_check.h"
#include "recorder/archive/zip_content.h"
#include "recorder/inputs/npz_arrays.h"
#include "tests/annotator/pickle_builder.h"
#include "tests/fuzz/stored_zip.h"
#include "tests/schema/expect_error.h"
#include "tests/schema/temporary_folder.h"

namespace whence {

using recorder::archive::first_pickle_fault;
using recorder::inputs::NpzArray;
using recorder::inputs::read_npz_arrays;

namespace {

std::optional<std::uint64_t> record(const std::string& key) {
  return key == "0" ? std::optional<std::uint64_t>(24) : key == "1" ? std::optional<std::uint64_t>(20) : std::nullopt;
}

TEST(PickleCheck, TensorsMustFitTheirStorages) {
  EXPECT_EQ(first_pickle_fault(pickles::pickle(pickles::tensor_call("0", "FloatStorage", 0, {2, 3}, {3, 1})), record),
            "");
  EXPECT_NE(first_pickle_fault(pickles::pickle(pickles::tensor_call("1", "FloatStorage", 0, {2, 3}, {3, 1})), record),
            "");
}

TEST(PickleCheck, InvalidPicklesAreRefused) {
  for (const std::string& value :
       {std::string("r\xff\xff\xff\x7f"), std::string("h\x01"), std::string("X\xff\xff\xff\x7f"), std::string("a"),
        std::string("]q\x01h\x01"
                    "a"),
        std::string("(")}) {
    EXPECT_NE(first_pickle_fault(pickles::pickle(value), record), "");
  }
  EXPECT_NE(first_pickle_fault("", record), "");
  EXPECT_NE(first_pickle_fault("\x80\x02K\x01", record), "");
  EXPECT_EQ(first_pickle_fault(pickles::pickle("K\x01"), record), "");
}

class Npz : public ::testing::Test {
 protected:
  // Returns a .npy file of version 1 with this header and content.
  static std::string npy(const std::string& header, const std::string& content) {
    std::string text = "\x93NUMPY\x01";
    text += '\0';
    text += static_cast<char>(header.size() % 256);
    text += static_cast<char>(header.size() / 256);
    return text + header + content;
  }
  std::vector<NpzArray> read(const std::string& member) {
    std::ofstream(folder_ / "x.npz", std::ios::binary) << fuzz::stored_zip({{"x.npy", member}});
    return read_npz_arrays(folder_ / "x.npz");
  }

  TemporaryFolder folder_;
};

TEST_F(Npz, DtypesSizesAndOrder) {
  const std::string eight = "12345678";
  const std::tuple<const char*, const char*, DType, std::vector<std::int64_t>> cases[] = {
      {"<f4", "(2,)", DType::float32, {2}},      {"<i8", "()", DType::int64, {}},
      {"|u1", "(2, 4)", DType::uint8, {2, 4}},   {"|b1", "(8,)", DType::boolean, {8}},
      {"<f2", "(4, 1)", DType::float16, {4, 1}}, {"<i2", "(2,2)", DType::int16, {2, 2}}};
  for (const auto& [descr, shape, dtype, dims] : cases) {
    const auto arrays =
        read(npy("{'descr': '" + std::string(descr) + "', 'fortran_order': False, 'shape': " + shape + ", }\n", eight));
    ASSERT_EQ(arrays.size(), 1u);
    EXPECT_EQ(arrays[0].name, "x");
    EXPECT_EQ(arrays[0].dtype, dtype) << descr;
    EXPECT_EQ(arrays[0].dims, dims) << descr;
    EXPECT_EQ(arrays[0].bytes, eight);
    EXPECT_FALSE(arrays[0].fortran);
  }
  EXPECT_TRUE(read(npy("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 4), }\n", eight))[0].fortran);
}

TEST_F(Npz, DamagedFilesAreRefused) {
  for (const std::string& member : {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }\n", "12345678"),
                                    npy("{'descr': '>i2', 'fortran_order': False, 'shape': (4,), }\n", "12345678"),
                                    npy("{'descr': '<c99', 'fortran_order': False, 'shape': (2,), }\n", "12345678"),
                                    npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }\n", "12345678"),
                                    npy("{'fortran_order': False, 'shape': (2,), }\n", "12345678"),
                                    std::string("\x93NUM"), std::string("plain text")}) {
    expect_error(Code::corrupt_file, [&] { read(member); });
  }
}

TEST(ZipContent, IsComparedWithItsChecksum) {
  const TemporaryFolder folder;
  const std::string path = folder / "a.zip";
  std::string archive = fuzz::stored_zip({{"a", "hello"}});
  const auto read = [&] {
    std::ofstream(path, std::ios::binary) << archive;
    const ZipArchive zip(path, "a test", ZipArchive::Packing::deflated);
    std::string storage;
    return std::string(recorder::archive::checked_content(zip, zip.entries().front(), storage, "get it again"));
  };
  EXPECT_EQ(read(), "hello");
  archive[archive.find("hello")] = 'j';
  expect_error(Code::corrupt_file, read);
}

}  // namespace
}  // namespace whence
