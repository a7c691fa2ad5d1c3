// The graph and figures on its nodes in the JSON of Model Explorer (github.com/google-ai-edge/model-explorer,
// graph_builder.py and node_data_builder.py): modules are nested layers, of modules that are called several times one
// for each call.
//
// Nodes that no module is known for stand apart, in a layer that says so, nested as the slashes of their names are.
// Inputs and outputs of the model are nodes, too; weights are named at the inputs that read them. Cost: linear, and for
// each node the depth of its module.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "annotator/functions/value_shapes.h"
#include "annotator/view/drawing_files.h"
#include "annotator/view/node_graph.h"

namespace whence::view {

// By node: its name; of nodes without one or with another's, a text that no other node has. Node data is keyed by them.
std::vector<std::string> viewer_ids(const NodeGraph& graph);

// The graph's name, which is the other key of node data.
std::string viewer_graph_id(const onnx_file::OnnxSummary& model);

// A collection of one graph. `graph` is of `model`; `shapes` holds the values whose types are known.
void write_model_explorer(const onnx_file::OnnxSummary& model, const NodeGraph& graph,
                          const functions::ValueShapes& shapes, const PutText& put);

// Node data: the confidence of each node, as its word and colour.
void write_confidence_data(const onnx_file::OnnxSummary& model, const NodeGraph& graph, const PutText& put);

}  // namespace whence::view
