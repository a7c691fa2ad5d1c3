// The dtype table, and promotion in the difficult cases of torch.promote_types (PyTorch 2.13).
#include "schema/dtype.h"

#include <gtest/gtest.h>

namespace whence {
namespace {

TEST(DType, PyTorchAndOnnxNumbersRoundTrip) {
  for (int i = 1; i <= static_cast<int>(DType::float8_e5m2fnuz); ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(from_scalar_type(to_scalar_type(dtype)), dtype) << name_of(dtype);
    EXPECT_EQ(from_onnx(to_onnx(dtype)), dtype) << name_of(dtype);
    EXPECT_EQ(parse_dtype(name_of(dtype)), dtype) << name_of(dtype);
    EXPECT_GT(size_of(dtype), 0u) << name_of(dtype);
    EXPECT_LE(is_floating(dtype) + is_complex(dtype) + is_integral(dtype), 1) << name_of(dtype);
  }
  EXPECT_EQ(from_scalar_type(12), DType::undefined);  // qint8: whence has no dtype for quantized tensors
  EXPECT_EQ(from_onnx(8), DType::undefined);          // STRING
}

TEST(DType, ParsesAliases) {
  EXPECT_EQ(parse_dtype("torch.int64"), DType::int64);
  EXPECT_EQ(parse_dtype("long"), DType::int64);
  EXPECT_EQ(parse_dtype("torch.half"), DType::float16);
  EXPECT_EQ(parse_dtype("cdouble"), DType::complex128);
  for (const char* invalid : {"", "torch.", "undefined", "int128", "Int64"})
    EXPECT_FALSE(parse_dtype(invalid)) << invalid;
}

TEST(DType, PromotesLikePyTorch) {
  struct Row {
    DType a, b, expected;
  };
  const Row rows[] = {
      {DType::boolean, DType::uint8, DType::uint8},         {DType::uint8, DType::int8, DType::int16},
      {DType::uint8, DType::int64, DType::int64},           {DType::int16, DType::int32, DType::int32},
      {DType::int64, DType::float16, DType::float16},       {DType::float16, DType::bfloat16, DType::float32},
      {DType::bfloat16, DType::float64, DType::float64},    {DType::int64, DType::complex64, DType::complex64},
      {DType::float32, DType::complex64, DType::complex64}, {DType::float64, DType::complex64, DType::complex128},
      {DType::uint16, DType::uint16, DType::uint16},        {DType::uint16, DType::int32, DType::undefined},
      {DType::uint16, DType::boolean, DType::undefined},    {DType::uint32, DType::bfloat16, DType::bfloat16},
      {DType::uint64, DType::complex64, DType::undefined},  {DType::float8_e5m2, DType::float32, DType::undefined},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(promote(row.a, row.b), row.expected) << name_of(row.a) << " " << name_of(row.b);
    EXPECT_EQ(promote(row.b, row.a), row.expected) << name_of(row.b) << " " << name_of(row.a);
  }
}

}  // namespace
}  // namespace whence
