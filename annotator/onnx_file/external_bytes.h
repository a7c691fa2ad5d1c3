// ExternalBytes: maps a model's data files and returns the bytes of external tensors, with bounds checks.
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

  // Returns the bytes of a tensor with data_location EXTERNAL. Throws Error: outside_folder, missing_file;
  // truncated_file if the data file ends before the tensor does; corrupt_file if offset or length is not a number.
  std::string_view of(const OnnxTensor& tensor);
  // Lets the kernel drop the pages of bytes that of() returned; they are read again when they are needed.
  void release(std::string_view bytes) const;

 private:
  std::string model_;
  std::map<std::string, std::shared_ptr<MappedFile>> files_;
};

}  // namespace whence::onnx_file
