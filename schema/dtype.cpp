// Table of element types: name, size, PyTorch's number, ONNX's number, and the names that are parsed.
#include "schema/dtype.h"

#include <array>

namespace whence {
namespace {

enum class Category : std::uint8_t { none, boolean, integral, floating, complex };

struct Row {
  DType dtype;
  std::string_view name;
  std::string_view other_name;  // PyTorch's alias; empty if there is none
  std::uint8_t size;            // bytes
  Category category;
  int scalar_type;  // c10::ScalarType (PyTorch 2.13, c10/core/ScalarType.h)
  int onnx;         // onnx::TensorProto::DataType
};

constexpr std::array kRows{
    Row{DType::undefined, "undefined", "", 0, Category::none, -1, 0},
    Row{DType::boolean, "bool", "", 1, Category::boolean, 11, 9},
    Row{DType::uint8, "uint8", "byte", 1, Category::integral, 0, 2},
    Row{DType::int8, "int8", "char", 1, Category::integral, 1, 3},
    Row{DType::uint16, "uint16", "", 2, Category::integral, 27, 4},
    Row{DType::int16, "int16", "short", 2, Category::integral, 2, 5},
    Row{DType::uint32, "uint32", "", 4, Category::integral, 28, 12},
    Row{DType::int32, "int32", "int", 4, Category::integral, 3, 6},
    Row{DType::uint64, "uint64", "", 8, Category::integral, 29, 13},
    Row{DType::int64, "int64", "long", 8, Category::integral, 4, 7},
    Row{DType::float16, "float16", "half", 2, Category::floating, 5, 10},
    Row{DType::bfloat16, "bfloat16", "", 2, Category::floating, 15, 16},
    Row{DType::float32, "float32", "float", 4, Category::floating, 6, 1},
    Row{DType::float64, "float64", "double", 8, Category::floating, 7, 11},
    Row{DType::complex64, "complex64", "cfloat", 8, Category::complex, 9, 14},
    Row{DType::complex128, "complex128", "cdouble", 16, Category::complex, 10, 15},
    Row{DType::float8_e4m3fn, "float8_e4m3fn", "", 1, Category::floating, 24, 17},
    Row{DType::float8_e4m3fnuz, "float8_e4m3fnuz", "", 1, Category::floating, 26, 18},
    Row{DType::float8_e5m2, "float8_e5m2", "", 1, Category::floating, 23, 19},
    Row{DType::float8_e5m2fnuz, "float8_e5m2fnuz", "", 1, Category::floating, 25, 20},
};

constexpr bool rows_follow_the_enum() {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].dtype != static_cast<DType>(i)) return false;
  }
  return true;
}
static_assert(rows_follow_the_enum());

const Row& row(DType dtype) { return kRows[static_cast<std::size_t>(dtype)]; }

bool is_float8(DType dtype) { return is_floating(dtype) && size_of(dtype) == 1; }
// uint16, uint32 and uint64: PyTorch promotes them only to themselves or to a floating type.
bool is_wide_unsigned(DType dtype) {
  return dtype == DType::uint16 || dtype == DType::uint32 || dtype == DType::uint64;
}

DType promote_integral(DType a, DType b) {
  if (a == DType::uint8) return b == DType::int8 ? DType::int16 : b;
  if (b == DType::uint8) return promote_integral(b, a);
  return size_of(a) >= size_of(b) ? a : b;
}

DType promote_floating(DType a, DType b) {
  if (size_of(a) == size_of(b)) return DType::float32;  // float16 with bfloat16; promote() handles equal types
  return size_of(a) > size_of(b) ? a : b;
}

}  // namespace

std::size_t size_of(DType dtype) { return row(dtype).size; }
std::string_view name_of(DType dtype) { return row(dtype).name; }
int to_scalar_type(DType dtype) { return row(dtype).scalar_type; }
int to_onnx(DType dtype) { return row(dtype).onnx; }
bool is_floating(DType dtype) { return row(dtype).category == Category::floating; }
bool is_complex(DType dtype) { return row(dtype).category == Category::complex; }
bool is_integral(DType dtype) { return row(dtype).category == Category::integral; }
bool is_unsigned(DType dtype) {
  return dtype == DType::uint8 || dtype == DType::uint16 || dtype == DType::uint32 || dtype == DType::uint64;
}

std::optional<DType> parse_dtype(std::string_view text) {
  if (text.starts_with("torch.")) text.remove_prefix(6);
  for (const Row& row : kRows) {
    if (row.dtype == DType::undefined || text.empty()) continue;
    if (text == row.name || text == row.other_name) return row.dtype;
  }
  return std::nullopt;
}

DType from_scalar_type(int c10_scalar_type) {
  for (const Row& row : kRows) {
    if (row.scalar_type == c10_scalar_type) return row.dtype;
  }
  return DType::undefined;
}

DType from_onnx(int onnx_data_type) {
  for (const Row& row : kRows) {
    if (row.onnx == onnx_data_type) return row.dtype;
  }
  return DType::undefined;
}

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (a == DType::undefined || b == DType::undefined || is_float8(a) || is_float8(b)) return DType::undefined;
  if (is_wide_unsigned(a) || is_wide_unsigned(b)) {
    return is_floating(a) ? a : is_floating(b) ? b : DType::undefined;
  }
  if (is_complex(a) || is_complex(b)) {
    const auto wide = [](DType d) { return d == DType::complex128 || d == DType::float64; };
    return wide(a) || wide(b) ? DType::complex128 : DType::complex64;
  }
  if (row(a).category != row(b).category) return row(a).category > row(b).category ? a : b;
  return is_floating(a) ? promote_floating(a, b) : promote_integral(a, b);
}

}  // namespace whence
