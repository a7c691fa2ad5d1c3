// Nodes of captured graphs in files of PyTorch's exporter. If several modules share a region
// (torch.compiler.nested_compile_region), the exporter writes the region's nodes for each call, all with the modules of
// the first call. Such a node gets the modules of its own call here, from the parameters that the nodes of the call
// read.
#pragma once

#include <deque>
#include <string_view>

#include "annotator/onnx_file/onnx_summary.h"

namespace whence::onnx_file {

// Returns true for the value of a node's metadata that states modules of a captured graph: "_export_root.layers.1".
bool states_captured_modules(std::string_view key, std::string_view value);

// Sets OnnxNode::captured for nodes of calls that cannot all have the stated modules. `modules` stores the results,
// which the nodes refer to.
//
// A node and the producer of its input belong to one call if the text of its fx node reads the producer's. Modules of a
// call follow from its parameters; without any, only the module around all calls is known.
void find_modules_of_calls(OnnxGraph& graph, std::deque<CapturedModules>& modules);

}  // namespace whence::onnx_file
