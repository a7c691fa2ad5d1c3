// Reads a node's origin from PyTorch's own keys, for files that whence did not annotate.
//
// The keys are strong evidence but can be wrong: when PyTorch's optimiser merges nodes, the result has the keys of only
// one of them. So a node is at most `inferred`. If it reads parameters of another module, it is `ancestor`: only the
// module that encloses both is certain.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "annotator/metadata/way.h"
#include "annotator/onnx_file/onnx_summary.h"
#include "annotator/origin/confidence.h"

namespace whence::metadata {

struct PyTorchOrigin {
  std::vector<std::string> modules;  // never empty; two if a norm was folded into the layer before it
  origin::Confidence confidence = origin::Confidence::inferred;
  std::string source;  // "linear.py:134 forward"; empty if the keys do not state it
};

// Returns nullopt for a node without such keys. Ignores whence's keys.
std::optional<PyTorchOrigin> origin_by_pytorch(const onnx_file::OnnxNode& node,
                                               const onnx_file::OnnxProperties& metadata);

}  // namespace whence::metadata
