#include "annotator/functions/plain_node.h"

#include "annotator/onnx_file/onnx_fields.h"
#include "annotator/onnx_file/wire_in.h"
#include "annotator/onnx_file/wire_out.h"

namespace whence::functions {

namespace proto = onnx_file::proto;
namespace wire = onnx_file::wire;

namespace {

const Place unused_place;  // for errors that cannot occur, because the bytes were read before

constexpr std::uint64_t last_attribute_type = 14;  // TYPE_PROTOS; protobuf moves unknown types to the end

// Returns true if the field has its shortest encoding.
bool is_shortest(const wire::Field& field) {
  const std::size_t tag = wire::varint_size(static_cast<std::uint64_t>(field.number) << 3U);
  switch (field.type) {
    case wire::WireType::varint:
      return field.span.size() == tag + wire::varint_size(field.value);
    case wire::WireType::bytes:
      return field.span.size() == tag + wire::varint_size(field.bytes.size()) + field.bytes.size();
    case wire::WireType::fixed32:
      return field.span.size() == tag + 4;
    case wire::WireType::fixed64:
      return field.span.size() == tag + 8;
  }
  return false;
}

// Checks that fields are ordered by number and encoded in the shortest form, and that only repeated fields repeat.
class FieldOrder {
 public:
  bool accepts(const wire::Field& field, bool is_repeated) {
    const bool fits = (is_repeated ? field.number >= last_ : field.number > last_) && is_shortest(field);
    last_ = field.number;
    return fits;
  }

 private:
  std::uint32_t last_ = 0;
};

bool is_plain_entry(std::string_view message) {
  FieldOrder order;
  for (const wire::Field& field : wire::Fields(message, unused_place)) {
    if (!field.is_bytes(proto::entry::key) && !field.is_bytes(proto::entry::value)) return false;
    if (!order.accepts(field, /*is_repeated=*/false)) return false;
  }
  return true;
}

// Accepts numbers and strings, and lists of them; numbers must be unpacked, as onnx.proto declares them.
bool is_plain_attribute(std::string_view message, std::string_view& name) {
  FieldOrder order;
  for (const wire::Field& field : wire::Fields(message, unused_place)) {
    const bool is_list = field.number == proto::attribute::floats || field.number == proto::attribute::ints ||
                         field.number == proto::attribute::strings;
    if (!order.accepts(field, is_list)) return false;
    switch (field.number) {
      case proto::attribute::name:
        name = field.bytes;
        [[fallthrough]];
      case proto::attribute::s:
      case proto::attribute::strings:
      case proto::attribute::ref_attr_name:
        if (field.type != wire::WireType::bytes) return false;
        break;
      case proto::attribute::f:
      case proto::attribute::floats:
        if (field.type != wire::WireType::fixed32) return false;
        break;
      case proto::attribute::i:
      case proto::attribute::ints:
        if (field.type != wire::WireType::varint) return false;
        break;
      case proto::attribute::type:
        if (field.type != wire::WireType::varint || field.value > last_attribute_type) return false;
        break;
      default:
        return false;
    }
  }
  return true;
}

}  // namespace

std::optional<PlainNode> read_plain_node(std::string_view message) {
  PlainNode node;
  FieldOrder order;
  for (const wire::Field& field : wire::Fields(message, unused_place)) {
    const bool is_repeated = field.number == proto::node::input || field.number == proto::node::output ||
                             field.number == proto::node::attribute || field.number == proto::node::metadata_props;
    if (field.type != wire::WireType::bytes || !order.accepts(field, is_repeated)) return std::nullopt;
    switch (field.number) {
      case proto::node::input:
        node.inputs.push_back(field.bytes);
        break;
      case proto::node::output:
        node.outputs.push_back(field.bytes);
        break;
      case proto::node::name:
      case proto::node::doc_string:
        break;
      case proto::node::op_type:
        node.op_type = field.span;
        break;
      case proto::node::attribute:
        if (!is_plain_attribute(field.bytes, node.attributes.emplace_back(PlainAttribute{{}, field.bytes}).name)) {
          return std::nullopt;
        }
        break;
      case proto::node::domain:
        node.domain = field.span;
        break;
      case proto::node::overload:
        node.overload = field.span;
        break;
      case proto::node::metadata_props:
        if (!is_plain_entry(field.bytes)) return std::nullopt;
        break;
      default:
        return std::nullopt;
    }
  }
  return node;
}

}  // namespace whence::functions
