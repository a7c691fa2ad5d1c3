// TensorBytes: returns the content of tensors in the layout of raw data, whether the model stores it as raw data, in a
// typed field or as external data.
#pragma once

#include <string>
#include <string_view>

#include "annotator/onnx_file/external_bytes.h"
#include "annotator/onnx_file/onnx_summary.h"

namespace whence::onnx_file {

class TensorBytes {
 public:
  explicit TensorBytes(const std::string& model) : place_{.file = model, .stage = "read"}, external_(model) {}

  // `typed`: receives the bytes of a typed field, which must be converted. Raw data is returned as a view at no cost.
  // Throws Error: the errors of ExternalBytes; corrupt_file.
  std::string_view of(const OnnxTensor& tensor, std::string& typed);

 private:
  Place place_;
  ExternalBytes external_;
};

}  // namespace whence::onnx_file
