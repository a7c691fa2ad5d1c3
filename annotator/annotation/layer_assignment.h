// Devices of nodes into a file, as ONNX Runtime's layer assignment reads them; strip takes them out again.
#pragma once

#include <string>
#include <vector>

#include "annotator/onnx_file/carried_data.h"
#include "annotator/onnx_file/onnx_summary.h"

namespace whence::annotation {

// `devices`: by node, in the order of all_nodes(); an entry that is `left_out` is not written. `settings`: of the
// session, kept in the model's metadata. What an earlier call wrote is replaced. Returns false when the file said all
// of this. Errors: usage when another tool wrote such entries; those of rewrite_file.
bool write_layer_assignment(const onnx_file::OnnxSummary& model, const std::vector<std::string>& devices,
                            const std::string& left_out, const std::string& settings,
                            const onnx_file::ModelSource& input, const onnx_file::ModelOutput& output,
                            Diagnostics& notes);

}  // namespace whence::annotation
