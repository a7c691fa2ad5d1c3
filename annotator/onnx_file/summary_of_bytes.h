// A summary of a model that is not in a file of its own: one that was rewritten in memory.
#pragma once

#include <memory>
#include <string>

#include "annotator/onnx_file/onnx_summary.h"

namespace whence::onnx_file {

// The summary keeps the bytes alive, and the file that the model was made from, which is its `file`. Throws Error:
// those of read_onnx_summary.
OnnxSummary summary_of_bytes(std::shared_ptr<const MappedFile> file, std::string model);

}  // namespace whence::onnx_file
