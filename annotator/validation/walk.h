// Everything of one kind in a model, wherever it stands: in the graph, in branches and loop bodies, in functions.
// Used by checks. Order: that of the file, the graph before the functions.
#pragma once

#include "annotator/validation/check.h"

namespace whence::validation {

template <class Visit>
void walk_nodes(const std::vector<onnx_file::OnnxNode>& nodes, Visit&& visit) {
  for (const onnx_file::OnnxNode& node : nodes) {
    visit(node);
    for (const onnx_file::OnnxGraph& graph : node.subgraphs) walk_nodes(graph.nodes, visit);
  }
}

// visit(const OnnxNode&)
template <class Visit>
void walk_nodes(const onnx_file::OnnxSummary& model, Visit&& visit) {
  walk_nodes(model.graph.nodes, visit);
  for (const onnx_file::OnnxFunction& function : model.functions) walk_nodes(function.nodes, visit);
}

// visit(const OnnxGraph&)
template <class Visit>
void walk_graphs(const onnx_file::OnnxSummary& model, Visit&& visit) {
  visit(model.graph);
  walk_nodes(model, [&](const onnx_file::OnnxNode& node) {
    for (const onnx_file::OnnxGraph& graph : node.subgraphs) visit(graph);
  });
}

// visit(const OnnxTensor&), initializers and attributes
template <class Visit>
void walk_tensors(const onnx_file::OnnxSummary& model, Visit&& visit) {
  walk_graphs(model, [&](const onnx_file::OnnxGraph& graph) {
    for (const onnx_file::OnnxTensor& tensor : graph.initializers) visit(tensor);
  });
  walk_nodes(model, [&](const onnx_file::OnnxNode& node) {
    for (const onnx_file::OnnxTensor& tensor : node.tensors) visit(tensor);
  });
}

// visit(const OnnxValue&): inputs, outputs and value_info
template <class Visit>
void walk_values(const onnx_file::OnnxSummary& model, Visit&& visit) {
  walk_graphs(model, [&](const onnx_file::OnnxGraph& graph) {
    for (const auto* values : {&graph.inputs, &graph.outputs, &graph.value_info}) {
      for (const onnx_file::OnnxValue& value : *values) visit(value);
    }
  });
  for (const onnx_file::OnnxFunction& function : model.functions) {
    for (const onnx_file::OnnxValue& value : function.value_info) visit(value);
  }
}

// visit(const OnnxProperties&, const std::string& owner): the metadata of everything that can have some, the model
// itself left out; "value x", "function f", a node as reports call it.
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
