// Writes each node's device into a file in the format of ONNX Runtime's layer assignment; strip removes the devices.
#pragma once

#include <string>
#include <vector>

#include "annotator/onnx_file/carried_data.h"
#include "annotator/onnx_file/onnx_summary.h"

namespace whence::annotation {

// `devices`: by node, in the order of all_nodes(); entries equal to `left_out` are not written. `settings`: session
// settings, stored in the model's metadata. Replaces the entries of an earlier call. Returns false if the file already
// had all entries. Errors: usage if another tool wrote such entries; the errors of rewrite_file.
bool write_layer_assignment(const onnx_file::OnnxSummary& model, const std::vector<std::string>& devices,
                            const std::string& left_out, const std::string& settings,
                            const onnx_file::ModelSource& input, const onnx_file::ModelOutput& output,
                            Diagnostics& notes);

}  // namespace whence::annotation
