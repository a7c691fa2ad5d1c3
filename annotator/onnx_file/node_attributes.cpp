#include "annotator/onnx_file/node_attributes.h"

#include <bit>

#include "annotator/onnx_file/onnx_fields.h"
#include "annotator/onnx_file/wire_in.h"

namespace whence::onnx_file {

std::int64_t integer_attribute(const OnnxNode& node, std::string_view name, std::int64_t otherwise) {
  const Place place{.stage = "read"};
  for (const OnnxAttribute& attribute : node.attributes) {
    if (attribute.name != name) continue;
    for (const wire::Field& field : wire::Fields(attribute.message, place)) {
      if (field.is_varint(proto::attribute::i)) return static_cast<std::int64_t>(field.value);
    }
  }
  return otherwise;
}

std::optional<double> number_attribute(const OnnxNode& node, std::string_view name) {
  const Place place{.stage = "read"};
  for (const OnnxAttribute& attribute : node.attributes) {
    if (attribute.name != name) continue;
    for (const wire::Field& field : wire::Fields(attribute.message, place)) {
      if (field.is_varint(proto::attribute::i)) return static_cast<double>(static_cast<std::int64_t>(field.value));
      if (field.number == proto::attribute::f && field.type == wire::WireType::fixed32)
        return std::bit_cast<float>(static_cast<std::uint32_t>(field.value));
    }
  }
  return std::nullopt;
}

std::string_view text_attribute(const OnnxNode& node, std::string_view name) {
  const Place place{.stage = "read"};
  for (const OnnxAttribute& attribute : node.attributes) {
    if (attribute.name != name) continue;
    for (const wire::Field& field : wire::Fields(attribute.message, place)) {
      if (field.is_bytes(proto::attribute::s)) return field.bytes;
    }
  }
  return {};
}

}  // namespace whence::onnx_file
