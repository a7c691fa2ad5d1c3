// Visits everything of one kind in a model: in the graph, in branches and loop bodies, in functions. The order is that
// of the file, with the graph before the functions and a node before the nodes of its bodies.
#pragma once

#include "annotator/onnx_file/onnx_summary.h"

namespace whence::onnx_file {

template <class Visit>
void walk_nodes(const OnnxNode& node, Visit&& visit) {
  visit(node);
  for (const OnnxGraph& body : node.subgraphs) walk_nodes(body.nodes, visit);
}

template <class Visit>
void walk_nodes(const std::vector<OnnxNode>& nodes, Visit&& visit) {
  for (const OnnxNode& node : nodes) walk_nodes(node, visit);
}

// Calls visit(const OnnxNode&) for each node.
template <class Visit>
void walk_nodes(const OnnxSummary& model, Visit&& visit) {
  walk_nodes(model.graph.nodes, visit);
  for (const OnnxFunction& function : model.functions) walk_nodes(function.nodes, visit);
}

// Calls visit(const OnnxGraph&) for a graph and its nested graphs; for a model, also for graphs in functions.
template <class Visit>
void walk_graphs(const OnnxSummary& model, Visit&& visit) {
  visit(model.graph);
  walk_nodes(model, [&](const OnnxNode& node) {
    for (const OnnxGraph& graph : node.subgraphs) visit(graph);
  });
}

template <class Visit>
void walk_graphs(const OnnxGraph& outermost, Visit&& visit) {
  visit(outermost);
  walk_nodes(outermost.nodes, [&](const OnnxNode& node) {
    for (const OnnxGraph& graph : node.subgraphs) visit(graph);
  });
}

// Calls visit(const OnnxTensor&) for each tensor of initializers and attributes.
template <class Visit>
void walk_tensors(const OnnxSummary& model, Visit&& visit) {
  walk_graphs(model, [&](const OnnxGraph& graph) {
    for (const OnnxTensor& tensor : graph.initializers) visit(tensor);
  });
  walk_nodes(model, [&](const OnnxNode& node) {
    for (const OnnxTensor& tensor : node.tensors) visit(tensor);
  });
}

// Calls visit(const OnnxValue&) for each input, output and value_info.
template <class Visit>
void walk_values(const OnnxSummary& model, Visit&& visit) {
  walk_graphs(model, [&](const OnnxGraph& graph) {
    for (const auto* values : {&graph.inputs, &graph.outputs, &graph.value_info}) {
      for (const OnnxValue& value : *values) visit(value);
    }
  });
  for (const OnnxFunction& function : model.functions) {
    for (const OnnxValue& value : function.value_info) visit(value);
  }
}

}  // namespace whence::onnx_file
