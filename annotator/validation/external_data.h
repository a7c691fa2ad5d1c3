// External data of a model: the file and range of each tensor's bytes, resolved as a runtime would resolve them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "annotator/onnx_file/onnx_summary.h"

namespace whence::validation {

struct ExternalTensor {
  std::string tensor;
  std::string location;                    // as stated in the model, relative to its folder
  bool inside = false;                     // within the model's folder after following symbolic links
  std::optional<std::uint64_t> file_size;  // nullopt if there is no such regular file
  std::uint64_t offset = 0;
  std::optional<std::uint64_t> length;  // nullopt: up to the end of the file
  std::optional<std::uint64_t> needed;  // bytes_needed() of the tensor
  bool numbers_valid = true;            // offset and length are numbers
};

// Returns the bytes that dtype and shape require, with elements below one byte packed; nullopt for strings, unknown
// dtypes and sizes that overflow.
std::optional<std::uint64_t> bytes_needed(const onnx_file::OnnxTensor& tensor);

// Returns the external initializers and attribute tensors, including nested graphs and functions. Queries the file
// system but reads no file.
std::vector<ExternalTensor> external_tensors(const onnx_file::OnnxSummary& model);

}  // namespace whence::validation
