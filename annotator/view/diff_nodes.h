// DiffNodes: the nodes of one of two files that are compared, with what they say of their origin.
#pragma once

#include <vector>

#include "annotator/metadata/attribution.h"
#include "annotator/onnx_file/onnx_summary.h"
#include "schema/program.h"

namespace whence::view {

struct DiffNode {
  const onnx_file::OnnxNode* node = nullptr;
  metadata::Attribution attribution;
  bool constant = false;  // depends on no input of the model: a tool that computes it beforehand leaves no trace
};
using DiffNodes = std::vector<DiffNode>;

// `by_whence`: only what whence, or a tool that keeps to docs/metadata-spec.md, left on the nodes.
enum class Reading : std::uint8_t { everything, by_whence };

// The nodes of the graph, nested ones included, in file order. `program`: the sidecar's, to look up stamps; may be
// null.
DiffNodes diff_nodes(const onnx_file::OnnxSummary& model, const Program* program, Reading read = Reading::everything);

}  // namespace whence::view
