#include "annotator/onnx_file/tensor_bytes.h"

#include <algorithm>

#include "annotator/onnx_file/onnx_fields.h"
#include "annotator/onnx_file/wire_in.h"
#include "schema/dtype.h"

namespace whence::onnx_file {

namespace fields = proto::tensor;

namespace {

constexpr std::uint32_t string_data = 6;

void append_little_endian(std::uint64_t bits, std::size_t size, std::string& to) {
  for (std::size_t i = 0; i < size; ++i) to += static_cast<char>(bits >> (8 * i));
}

// Appends the numbers of a typed field: floats are stored as they are, integers as one varint for each element.
void append_numbers(const wire::Field& field, std::size_t size, const Place& place, std::string& to) {
  const bool floats = field.number == fields::float_data || field.number == fields::double_data;
  if (field.type != wire::WireType::bytes) return append_little_endian(field.value, size, to);
  if (floats) {
    to += field.bytes;
    return;
  }
  for (wire::FieldReader packed(field.bytes, place); !packed.done();) append_little_endian(packed.varint(), size, to);
}

std::size_t element_size(const wire::Field& field, int data_type) {
  if (field.number == fields::float_data) return 4;
  if (field.number == fields::double_data || field.number == fields::int64_data) return 8;
  const DType dtype = from_onnx(data_type);
  return dtype == DType::undefined ? 1 : std::min<std::size_t>(size_of(dtype), 8);
}

}  // namespace

std::string_view TensorBytes::of(const OnnxTensor& tensor, std::string& typed) {
  if (tensor.external) return external_.of(tensor);
  if (!tensor.raw.empty()) return tensor.raw;
  typed.clear();
  for (const wire::Field& field : wire::Fields(tensor.message, place_)) {
    switch (field.number) {
      case fields::float_data:
      case fields::int32_data:
      case fields::int64_data:
      case fields::double_data:
      case fields::uint64_data:
        append_numbers(field, element_size(field, tensor.data_type), place_, typed);
        break;
      case string_data:
        typed += field.span;
        break;
      default:
        break;
    }
  }
  return typed;
}

}  // namespace whence::onnx_file
