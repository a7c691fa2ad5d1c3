#include "annotator/validation/external_data.h"

#include <map>

#include <onnx/onnx_pb.h>

#include "annotator/onnx_file/data_file.h"
#include "annotator/validation/walk.h"
#include "schema/dtype.h"

namespace whence::validation {

using onnx_file::find_property;
using onnx_file::OnnxTensor;

namespace {

class Resolver {
 public:
  explicit Resolver(const onnx_file::OnnxSummary& model) : model_(model.file->path()) {}

  void add(const OnnxTensor& tensor) {
    if (!tensor.external) return;
    ExternalTensor result;
    result.tensor = tensor.name;
    result.location = find_property(tensor.external_data, "location").value_or("");
    result.needed = bytes_needed(tensor);
    if (const auto text = find_property(tensor.external_data, "offset")) {
      const auto number = onnx_file::parse_data_number(*text);
      result.numbers_valid = number.has_value();
      result.offset = number.value_or(0);
    }
    if (const auto text = find_property(tensor.external_data, "length")) {
      result.length = onnx_file::parse_data_number(*text);
      result.numbers_valid = result.numbers_valid && result.length;
    }
    locate(result);
    tensors.push_back(std::move(result));
  }

  std::vector<ExternalTensor> tensors;

 private:
  // Looks up each location only once: thousands of tensors may share a file.
  void locate(ExternalTensor& tensor) {
    const auto [entry, is_new] = files_.try_emplace(tensor.location);
    onnx_file::DataFile& file = entry->second;
    if (is_new) file = onnx_file::find_data_file(model_, tensor.location);
    tensor.inside = file.fault != onnx_file::DataFault::outside;
    if (file.fault == onnx_file::DataFault::none) tensor.file_size = file.size;
  }

  std::string model_;
  std::map<std::string, onnx_file::DataFile> files_;
};

}  // namespace

std::optional<std::uint64_t> bytes_needed(const OnnxTensor& tensor) {
  std::uint64_t elements = 1;
  for (const std::int64_t size : tensor.dims) {
    if (size < 0 || __builtin_mul_overflow(elements, static_cast<std::uint64_t>(size), &elements)) return std::nullopt;
  }
  switch (tensor.data_type) {
    case onnx::TensorProto::UINT4:
    case onnx::TensorProto::INT4:
    case onnx::TensorProto::FLOAT4E2M1:
      return elements / 2 + elements % 2;
    case onnx::TensorProto::UINT2:
    case onnx::TensorProto::INT2:
      return elements / 4 + (elements % 4 != 0 ? 1 : 0);
    default:
      break;
  }
  const DType dtype = from_onnx(tensor.data_type);
  std::uint64_t bytes = 0;
  if (dtype == DType::undefined || __builtin_mul_overflow(elements, size_of(dtype), &bytes)) return std::nullopt;
  return bytes;
}

std::vector<ExternalTensor> external_tensors(const onnx_file::OnnxSummary& model) {
  Resolver resolver(model);
  walk_tensors(model, [&](const OnnxTensor& tensor) { resolver.add(tensor); });
  return std::move(resolver.tensors);
}

}  // namespace whence::validation
