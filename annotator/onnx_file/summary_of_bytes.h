// Reads the summary of a model that was rewritten in memory and has no file of its own.
#pragma once

#include <memory>
#include <string>

#include "annotator/onnx_file/onnx_summary.h"

namespace whence::onnx_file {

// `file`: the file that the model was made from. The summary keeps it and the bytes of `model` alive. Throws Error: the
// errors of read_onnx_summary.
OnnxSummary summary_of_bytes(std::shared_ptr<const MappedFile> file, std::string model);

}  // namespace whence::onnx_file
