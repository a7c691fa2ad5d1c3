// TensorBytes: returns the content of tensors in the layout of raw data, whether the model stores it as raw data, in a
// typed field or as external data.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "annotator/onnx_file/external_bytes.h"
#include "annotator/onnx_file/onnx_summary.h"

namespace whence::onnx_file {

// Returns true for the number of a field with a tensor's elements other than raw_data.
bool is_typed_data(std::uint32_t field);
// Returns a packed field with elements in the layout of raw data. `data_type`: onnx::TensorProto::DataType.
std::string typed_field(std::uint32_t field, std::string_view raw, int data_type);

class TensorBytes {
 public:
  explicit TensorBytes(const std::string& model) : place_{.file = model, .stage = "read"}, external_(model) {}

  // Lets the kernel drop the pages of external bytes that of() returned; they are read again when they are needed.
  void release(std::string_view bytes) const { external_.release(bytes); }

  // `typed`: receives the bytes of a typed field, which must be converted. Raw data is returned as a view at no cost.
  // Throws Error: the errors of ExternalBytes; corrupt_file.
  std::string_view of(const OnnxTensor& tensor, std::string& typed);

 private:
  Place place_;
  ExternalBytes external_;
};

}  // namespace whence::onnx_file
