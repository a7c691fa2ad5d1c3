// Contents: the bytes of a file's tensors, wherever the file stores them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "annotator/derivation/file_tensors.h"
#include "annotator/onnx_file/tensor_bytes.h"
#include "schema/tensor_data.h"

namespace whence::derivation {

// Returns the elements of a tensor of at most `most` integers; nullopt for others, and if they are not in memory.
std::optional<std::vector<std::int64_t>> integers_in(const TensorData& data, std::int64_t most);

class Contents {
 public:
  // `file`: maps the model, with the tensors that are in it.
  Contents(const std::string& model, std::shared_ptr<const MappedFile> file) : file_(std::move(file)), bytes_(model) {}
  // Returns row-major bytes. Valid until the next call, which releases their pages. Throws the errors of TensorBytes.
  std::string_view of(const FileTensor& tensor);
  // Returns a copy. Throws these, and Error(corrupt_file) if the bytes do not fit the tensor's sizes.
  TensorData data(const FileTensor& tensor);

 private:
  std::shared_ptr<const MappedFile> file_;
  onnx_file::TensorBytes bytes_;
  std::string typed_;
  std::string_view last_;
};

}  // namespace whence::derivation
