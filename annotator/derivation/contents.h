// Contents: the bytes of a file's tensors, wherever the file stores them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "annotator/derivation/file_tensors.h"
#include "annotator/onnx_file/tensor_bytes.h"
#include "schema/tensor_data.h"

namespace whence::derivation {

// Returns the elements of a tensor of at most `most` integers; nullopt for others, and if they are not in memory.
std::optional<std::vector<std::int64_t>> integers_in(const TensorData& data, std::int64_t most);

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
