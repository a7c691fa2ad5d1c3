// The content of tensors in the layout of raw data, however the file stores it: as raw data, in a typed field, beside
// the model.
#pragma once

#include <string>
#include <string_view>

#include "annotator/onnx_file/external_bytes.h"
#include "annotator/onnx_file/onnx_summary.h"

namespace whence::onnx_file {

class TensorBytes {
 public:
  explicit TensorBytes(const std::string& model) : place_{.file = model, .stage = "read"}, external_(model) {}

  // `typed` holds the bytes where they stood in a typed field. Cost: none for raw data, which stays in the file. Throws
  // Error: those of ExternalBytes; corrupt_file.
  std::string_view of(const OnnxTensor& tensor, std::string& typed);

 private:
  Place place_;
  ExternalBytes external_;
};

}  // namespace whence::onnx_file
