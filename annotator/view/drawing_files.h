// Drawings for other programs: the nodes of a file in nested groups, one for each module, as Graphviz DOT and as
// GraphML. Nodes without a module are outside every group. Cost: linear in time and memory.
#pragma once

#include <functional>
#include <string_view>

#include "annotator/view/node_graph.h"

namespace whence::view {

// Returns a light colour for each confidence, from green to red.
constexpr std::string_view colour_of(origin::Confidence confidence) {
  constexpr std::string_view colours[] = {"#dff3e6", "#dcedf8", "#faf0cc", "#fce3d2", "#f9dcda"};
  return colours[static_cast<std::size_t>(confidence)];
}

using PutText = std::function<void(std::string_view)>;  // receives the drawing in pieces: it may exceed the model file

// Writes nested clusters, one for each module. Adds attributes that Graphviz ignores: module, confidence, source.
void write_dot(const NodeGraph& graph, const PutText& put);

// Writes GraphML 1.0: a module is a node that holds a graph. Edges are in the outermost graph, as they cross groups.
// Keys of nodes: kind (module, node), name, op, module, type, confidence, call, source; of edges: value.
void write_graphml(const NodeGraph& graph, const PutText& put);

}  // namespace whence::view
