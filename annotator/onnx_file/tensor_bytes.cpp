#include "annotator/onnx_file/tensor_bytes.h"

#include <algorithm>
#include <cstring>

#include "annotator/onnx_file/onnx_fields.h"
#include "annotator/onnx_file/wire_in.h"
#include "annotator/onnx_file/wire_out.h"
#include "schema/dtype.h"
#include "schema/printable.h"

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

// Readers take one of two fields, and not all the same one.
void require_one_field(const OnnxTensor& tensor, const Place& place) {
  for (const wire::Field& field : wire::Fields(tensor.message, place)) {
    if (!is_typed_data(field.number) && field.number != string_data) continue;
    throw Error(Code::corrupt_file, "the tensor '" + printable(tensor.name) + "' states its values in two fields",
                "keep one of raw_data, external_data and the typed fields", place);
  }
}

}  // namespace

bool is_typed_data(std::uint32_t field) {
  return field == fields::float_data || field == fields::int32_data || field == fields::int64_data ||
         field == fields::double_data || field == fields::uint64_data;
}

std::string typed_field(std::uint32_t field, std::string_view raw, int data_type) {
  std::string content;
  if (field == fields::float_data || field == fields::double_data) {
    content = raw;
  } else {
    const wire::Field of_field{.number = field, .type = wire::WireType::bytes, .bytes = {}, .span = {}};
    const std::size_t size = element_size(of_field, data_type);
    const DType dtype = from_onnx(data_type);
    const bool has_sign = dtype == DType::int8 || dtype == DType::int16 || dtype == DType::int32;
    for (std::size_t at = 0; at + size <= raw.size(); at += size) {
      std::uint64_t bits = 0;
      std::memcpy(&bits, raw.data() + at, size);
      // Negative numbers are stored as 64 bits.
      if (has_sign && (bits >> (8 * size - 1) & 1U) != 0) bits |= ~std::uint64_t{0} << (8 * size - 1);
      wire::append_varint(content, bits);
    }
  }
  std::string text;
  wire::append_field(text, field, content);
  return text;
}

std::string_view TensorBytes::of(const OnnxTensor& tensor, std::string& typed) {
  const bool is_untyped = tensor.external || !tensor.raw.empty();
  if (is_untyped) require_one_field(tensor, place_);
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
