// Contents: the bytes of a file's tensors, wherever the file stores them.
#pragma once

#include <string>
#include <string_view>

#include "annotator/derivation/file_tensors.h"
#include "annotator/onnx_file/tensor_bytes.h"
#include "schema/tensor_data.h"

namespace whence::derivation {

class Contents {
 public:
  explicit Contents(const std::string& model) : bytes_(model) {}
  // Returns row-major bytes. Valid until the next call. Throws the errors of TensorBytes.
  std::string_view of(const FileTensor& tensor);
  // Returns a copy. Throws these, and Error(corrupt_file) if the bytes do not fit the tensor's sizes.
  TensorData data(const FileTensor& tensor);

 private:
  onnx_file::TensorBytes bytes_;
  std::string typed_;
};

}  // namespace whence::derivation
