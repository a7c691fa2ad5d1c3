// Reads a node's origin from the keys of the exporter, PyTorch or onnxscript's builder, for files that whence did not
// annotate.
//
// The keys are strong evidence but can be wrong: when an optimiser merges nodes, the result has the keys of only
// one of them. So a node is at most `inferred`. If it reads parameters of another module, a runtime's operator belongs
// to both, because it is fused; any other operator is `ancestor`: only the module that encloses both is certain.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "annotator/metadata/call_path.h"
#include "annotator/onnx_file/onnx_summary.h"
#include "annotator/origin/confidence.h"

namespace whence::metadata {

struct ExporterOrigin {
  std::vector<std::string> modules;  // never empty; several for a fused operator, or with a norm folded into a product
  origin::Confidence confidence = origin::Confidence::inferred;
  std::string source;                  // "linear.py:134 forward"; empty if the keys do not state it
  std::optional<std::string> primary;  // the module of the main operation of several; the enclosing module if unset
};

// Returns nullopt for a node without such keys. Ignores whence's keys.
std::optional<ExporterOrigin> origin_by_exporter(const onnx_file::OnnxNode& node,
                                                 const onnx_file::OnnxProperties& metadata);

}  // namespace whence::metadata
