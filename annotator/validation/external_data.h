// External data of a model: where each tensor says its bytes lie, resolved as a runtime would resolve it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "annotator/onnx_file/onnx_summary.h"

namespace whence::validation {

struct ExternalTensor {
  std::string tensor;
  std::string location;                    // the text in the file, relative to the model's folder
  bool inside = false;                     // within the model's folder, symbolic links followed
  std::optional<std::uint64_t> file_size;  // nullopt: no such regular file
  std::uint64_t offset = 0;
  std::optional<std::uint64_t> length;  // absent: the rest of the file
  std::optional<std::uint64_t> needed;  // bytes that dtype and shape ask for; nullopt for strings and unknown dtypes
  bool numbers_valid = true;            // offset and length are numbers
};

// The bytes that dtype and shape require, elements of less than a byte packed; nullopt for strings, unknown dtypes and
// sizes that overflow.
std::optional<std::uint64_t> bytes_needed(const onnx_file::OnnxTensor& tensor);

// Initializers and tensors of attributes, nested graphs and functions included. Looks at files, reads none.
std::vector<ExternalTensor> external_tensors(const onnx_file::OnnxSummary& model);

}  // namespace whence::validation
