// DiffNodes: the nodes of one of two files that are compared, with their attributions.
#pragma once

#include <vector>

#include "annotator/metadata/attribution.h"
#include "annotator/onnx_file/onnx_summary.h"
#include "schema/program.h"

namespace whence::view {

struct DiffNode {
  const onnx_file::OnnxNode* node = nullptr;
  metadata::Attribution attribution;
  bool constant = false;  // depends on no input of the model: constant folding removes it without a trace
};
using DiffNodes = std::vector<DiffNode>;

// `by_whence` reads only metadata of whence, or of a tool that follows docs/metadata-spec.md.
enum class Reading : std::uint8_t { everything, by_whence };

// Returns the nodes of the graph, nested ones included, in file order. `program` resolves stamps; may be null.
DiffNodes diff_nodes(const onnx_file::OnnxSummary& model, const Program* program, Reading read = Reading::everything);

}  // namespace whence::view
