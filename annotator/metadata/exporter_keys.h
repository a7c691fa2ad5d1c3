// Reads a node's origin from the keys of the exporter, PyTorch or onnxscript's builder, for files that whence did not
// annotate.
//
// The keys are strong evidence but can be wrong: when an optimiser merges nodes, the result has the keys of only
// one of them. So a node is at most `inferred`. If it reads parameters of another module, it is `ancestor`: only the
// module that encloses both is certain.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "annotator/metadata/call_path.h"
#include "annotator/onnx_file/onnx_summary.h"
#include "annotator/origin/confidence.h"

namespace whence::metadata {

struct ExporterOrigin {
  std::vector<std::string> modules;  // never empty; two if a norm was folded into the layer before it
  origin::Confidence confidence = origin::Confidence::inferred;
  std::string source;  // "linear.py:134 forward"; empty if the keys do not state it
};

// Returns nullopt for a node without such keys. Ignores whence's keys.
std::optional<ExporterOrigin> origin_by_exporter(const onnx_file::OnnxNode& node,
                                                 const onnx_file::OnnxProperties& metadata);

}  // namespace whence::metadata
