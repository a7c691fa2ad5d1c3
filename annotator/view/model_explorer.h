// The graph and its node data in the JSON of Model Explorer (github.com/google-ai-edge/model-explorer,
// graph_builder.py and node_data_builder.py). Modules are nested layers; a module that is called several times has a
// layer for each call.
//
// Nodes without a module are in a separate layer, nested by the slashes in their names. Inputs and outputs of the model
// are also nodes; weights are named at the inputs that read them. Cost: linear in nodes times module depth.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "annotator/functions/value_shapes.h"
#include "annotator/view/drawing_files.h"
#include "annotator/view/node_graph.h"

namespace whence::view {

// Returns an id for each node: its name, or a unique text if it has none or shares it. Node data is keyed by these ids.
std::vector<std::string> viewer_ids(const NodeGraph& graph);

// Returns the graph's name, the outer key of node data.
std::string viewer_graph_id(const onnx_file::OnnxSummary& model);

// Writes a collection with one graph. `graph` is made from `model`; `shapes` has the values with known types.
void write_model_explorer(const onnx_file::OnnxSummary& model, const NodeGraph& graph,
                          const functions::ValueShapes& shapes, const PutText& put);

// Writes node data: the confidence of each node, as a word and a colour.
void write_confidence_data(const onnx_file::OnnxSummary& model, const NodeGraph& graph, const PutText& put);

}  // namespace whence::view
