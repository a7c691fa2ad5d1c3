// Walks everything in a model that can have metadata, for checks. Other walks are in annotator/onnx_file/walk.h.
#pragma once

#include "annotator/onnx_file/walk.h"
#include "annotator/validation/check.h"

namespace whence::validation {

using onnx_file::walk_graphs;
using onnx_file::walk_nodes;
using onnx_file::walk_tensors;
using onnx_file::walk_values;

// Calls visit(const OnnxProperties&, const std::string& owner) for everything that can have metadata except the model.
// `owner`: "value x", "function f", or a node's label in reports.
template <class Visit>
void walk_metadata(const onnx_file::OnnxSummary& model, Visit&& visit) {
  walk_graphs(model, [&](const onnx_file::OnnxGraph& graph) {
    visit(graph.metadata, "graph " + std::string(graph.name));
    for (const onnx_file::OnnxTensor& tensor : graph.initializers)
      visit(tensor.metadata, "initializer " + std::string(tensor.name));
  });
  walk_values(model,
              [&](const onnx_file::OnnxValue& value) { visit(value.metadata, "value " + std::string(value.name)); });
  walk_nodes(model, [&](const onnx_file::OnnxNode& node) { visit(node.metadata, shown_node(node)); });
  for (const onnx_file::OnnxFunction& function : model.functions) {
    visit(function.metadata, "function " + std::string(function.name));
  }
}

}  // namespace whence::validation
