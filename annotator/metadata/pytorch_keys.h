// A node's origin by PyTorch's own keys, for files that whence did not annotate.
//
// The keys are strong evidence and not the truth: PyTorch's optimiser leaves the keys of one of the nodes that it
// merges on what it made of them. A node is `inferred` at most, and less where the parameters that it reads are another
// module's: then only the module around both is certain.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "annotator/metadata/way.h"
#include "annotator/onnx_file/onnx_summary.h"
#include "annotator/origin/confidence.h"

namespace whence::metadata {

struct PyTorchOrigin {
  std::vector<std::string> modules;  // never empty; both where a norm was folded into the layer before it
  origin::Confidence confidence = origin::Confidence::inferred;
  std::string source;  // "linear.py:134 forward"; empty when the keys do not say it
};

// Returns nothing for a node without such keys. Keys of whence on the node are not looked at.
std::optional<PyTorchOrigin> origin_by_pytorch(const onnx_file::OnnxNode& node,
                                               const onnx_file::OnnxProperties& metadata);

}  // namespace whence::metadata
