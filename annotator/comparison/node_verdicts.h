// Compares the nodes of a file with a recorded program, by structure and weights: which nodes compute what the program
// computes, and which tensors are read where the program reads other parameters.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "annotator/derivation/derive.h"
#include "annotator/derivation/weights.h"
#include "annotator/onnx_file/onnx_summary.h"
#include "schema/program.h"

namespace whence::comparison {

enum class NodeVerdict : std::uint8_t {
  operation,    // corresponds to recorded operations
  movement,     // moves or converts elements and computes none: Reshape, Cast, DequantizeLinear
  size,         // computes sizes and indices, from sizes and constants alone
  unaccounted,  // none of these
};
std::string_view name_of(NodeVerdict verdict);

struct NodeFinding {
  NodeVerdict verdict = NodeVerdict::unaccounted;
  std::vector<std::string> modules = {};  // of its operations, or else the one around them; empty if unknown
  // Why a node that stands for operations is unaccounted; else how it computes less precisely than the file states.
  std::string remark = {};
};

// Returns a finding for each node of onnx_file::all_nodes(model.graph). A tensor whose parameters are not those of the
// operations that read it becomes unaccounted. Adds what differs in the results of both to `differences`. Throws the
// errors of match_model().
std::vector<NodeFinding> node_findings(const onnx_file::OnnxSummary& model, const Program& program,
                                       const std::vector<derivation::ProgramForm>& forms,
                                       const derivation::Weights& weights, const derivation::FileTensors& tensors,
                                       derivation::Contents& contents, std::vector<derivation::Derivation>& derivations,
                                       std::vector<std::string>& differences);

}  // namespace whence::comparison
