// V110: tensors and values with an undefined dtype, or with a number that ONNX does not define.
#include <onnx/onnx_pb.h>

#include "annotator/onnx_file/wire_in.h"
#include "annotator/validation/checks.h"
#include "annotator/validation/walk.h"

namespace whence::validation {

namespace wire = onnx_file::wire;

namespace {

bool is_known(std::uint64_t data_type) {
  return data_type > 0 && data_type < 1U << 16U && onnx::TensorProto::DataType_IsValid(static_cast<int>(data_type));
}

// Returns the first unknown elem_type of a TypeProto. Tensors (1) and sparse tensors (8) have one; sequences (4), maps
// (5) and optionals (9) contain a TypeProto.
std::optional<std::uint64_t> unknown_in(std::string_view type, const Place& place) {
  for (wire::FieldReader kinds(type, place); !kinds.done();) {
    const wire::Field kind = kinds.next();
    if (kind.type != wire::WireType::bytes) continue;
    const bool tensor = kind.number == 1 || kind.number == 8;
    if (!tensor && kind.number != 4 && kind.number != 5 && kind.number != 9) continue;
    std::optional<std::uint64_t> unknown = tensor ? std::optional<std::uint64_t>(0) : std::nullopt;
    for (wire::FieldReader fields(kind.bytes, place); !fields.done();) {
      const wire::Field field = fields.next();
      if (tensor && field.is_varint(1)) unknown = is_known(field.value) ? std::nullopt : std::optional(field.value);
      const bool nested = kind.number == 5 ? field.is_bytes(2) : !tensor && field.is_bytes(1);
      if (nested) unknown = unknown_in(field.bytes, place);
    }
    if (unknown) return unknown;
  }
  return std::nullopt;
}

FindingItem finding(std::string_view name, std::uint64_t data_type) {
  return {std::string(name), data_type == 0 ? "undefined" : "number " + std::to_string(data_type)};
}

std::vector<FindingItem> find_dtype_unknown(const CheckContext& context) {
  std::vector<FindingItem> items;
  walk_tensors(context.model, [&](const onnx_file::OnnxTensor& tensor) {
    const auto data_type = static_cast<std::uint64_t>(tensor.data_type);
    if (!is_known(data_type)) items.push_back(finding(tensor.name, data_type));
  });
  const Place place{.file = context.model.file->path()};
  walk_values(context.model, [&](const onnx_file::OnnxValue& value) {
    if (const auto unknown = unknown_in(value.type, place)) items.push_back(finding(value.name, *unknown));
  });
  return items;
}

}  // namespace

const Check dtype_unknown_check = {
    {"V110", "dtype_unknown", "tensors and values with a dtype that ONNX does not define",
     "write the file again with a valid dtype, or read it with a newer tool",
     "Without the dtype a reader cannot determine the size of an element.", Severity::error},
    find_dtype_unknown};

}  // namespace whence::validation
