// What readers of a file may understand in two ways: an attribute that a node states twice, an operator set that the
// file imports twice. Runtimes use the first or the last, so that one file is several models.
#pragma once

#include <string>
#include <vector>

#include "annotator/onnx_file/onnx_summary.h"

namespace whence::comparison {

// Returns a sentence for each.
std::vector<std::string> ambiguities(const onnx_file::OnnxSummary& model);

}  // namespace whence::comparison
