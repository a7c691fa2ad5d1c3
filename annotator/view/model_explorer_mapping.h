// The mapping between the nodes of two files, with which Model Explorer moves in both graphs at once
// (github.com/google-ai-edge/model-explorer, sync_navigation.ts).
#pragma once

#include "annotator/view/diff.h"
#include "annotator/view/drawing_files.h"
#include "annotator/view/node_graph.h"

namespace whence::view {

// Writes an entry for each pair, each group of nodes that replaced others, and each node of only one file. The graphs
// are those that write_model_explorer() writes of the compared files. Model Explorer highlights a node whose entry
// names no node of the other file, so an added or removed node names one that does not exist.
void write_mapping(const Comparison& comparison, const NodeGraph& graph_a, const NodeGraph& graph_b,
                   const PutText& put);

}  // namespace whence::view
