// Which nodes of a file compute what the program computes. Nodes are compared with the recorded program by structure
// and weights; what their metadata states counts little, because it can be forged.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "annotator/onnx_file/onnx_summary.h"
#include "schema/program.h"

namespace whence::derivation {

enum class NodeVerdict : std::uint8_t {
  operation,    // corresponds to recorded operations
  movement,     // moves or converts elements and computes none: Reshape, Cast, DequantizeLinear
  size,         // computes sizes and indices, from sizes and constants alone
  unaccounted,  // none of these
};
std::string_view name_of(NodeVerdict verdict);

// Returns a verdict for each node of onnx_file::all_nodes(model.graph). Nodes of functions are unaccounted. Throws the
// errors of match_model().
std::vector<NodeVerdict> node_verdicts(const onnx_file::OnnxSummary& model, const Program& program);

}  // namespace whence::derivation
