// Weights that lie beside the model: mapped, checked against what the model says of them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "annotator/onnx_file/onnx_summary.h"
#include "schema/files/files.h"

namespace whence::onnx_file {

class ExternalBytes {
 public:
  explicit ExternalBytes(const std::string& model) : model_(model) {}

  // The bytes of a tensor with data_location EXTERNAL. Throws Error: outside_folder, missing_file, truncated_file when
  // the data file ends before the tensor, corrupt_file when offset or length is not a number.
  std::string_view of(const OnnxTensor& tensor);

 private:
  std::string model_;
  std::map<std::string, std::shared_ptr<MappedFile>> files_;
};

}  // namespace whence::onnx_file
