// Element types under PyTorch's names. The table in dtype.cpp maps them to c10::ScalarType (archives, traces) and to
// onnx::TensorProto::DataType.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace whence {

enum class DType : std::uint8_t {
  undefined,
  boolean,
  uint8,
  int8,
  uint16,
  int16,
  uint32,
  int32,
  uint64,
  int64,
  float16,
  bfloat16,
  float32,
  float64,
  complex64,
  complex128,
  float8_e4m3fn,
  float8_e4m3fnuz,
  float8_e5m2,
  float8_e5m2fnuz,
};

std::size_t size_of(DType dtype);                    // bytes of one element
std::string_view name_of(DType dtype);               // "bool", "int64", "float32", ...
std::optional<DType> parse_dtype(std::string_view);  // also "long", "float", "half", "torch.int64"
DType from_scalar_type(int c10_scalar_type);         // undefined for a type that whence does not have
int to_scalar_type(DType dtype);
DType from_onnx(int onnx_data_type);
int to_onnx(DType dtype);

bool is_floating(DType dtype);  // float16, bfloat16, float32, float64, float8
bool is_complex(DType dtype);
bool is_integral(DType dtype);  // without bool
bool is_unsigned(DType dtype);  // uint8, uint16, uint32, uint64

// Returns torch.promote_types(a, b), the dtype of `a op b` for tensors of rank > 0. Undefined if PyTorch refuses.
DType promote(DType a, DType b);

}  // namespace whence
