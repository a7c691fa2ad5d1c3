// Builds the metadata that PyTorch's dynamo exporter writes for a graph and its values: the signature of the program,
// and the kind and original name of each input, parameter, buffer and output. Source of the texts:
// torch/export/graph_signature.py (__str__) and torch/onnx/_internal/exporter/_core.py of 2.13.
#pragma once

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "annotator/graph/graph.h"
#include "schema/program.h"

namespace whence::write {

struct InterfaceMetadata {
  using Entries = std::vector<std::pair<std::string, std::string>>;

  Entries graph;
  std::unordered_map<graph::GraphValueId, Entries> values;  // inputs, outputs, parameters and buffers
};

// Returns the signature's str() in Python: "\n# inputs\np_w: PARAMETER target='w'\n...".
std::string to_text(const Signature& signature);

// `graph`: the named graph that `program` was exported to. Uses the signature in the program, or, for TorchScript, the
// one that torch.export would give it.
InterfaceMetadata interface_metadata(const graph::Graph& graph, const Program& program);

}  // namespace whence::write
