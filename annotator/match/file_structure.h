// FileStructure: the Structure of an ONNX file. Names are resolved through bodies, local functions are expanded at each
// call, attributes are digested, and small constants are read.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "annotator/match/structure.h"
#include "annotator/onnx_file/external_bytes.h"
#include "annotator/onnx_file/onnx_summary.h"

namespace whence::match {

// Returns the file's nodes in the order in which OnnxRewrite visits them: the nodes of the graph, each followed by the
// nodes of its bodies, then the nodes of each local function.
std::vector<const onnx_file::OnnxNode*> nodes_with_functions(const onnx_file::OnnxSummary& model);

template <Side S>
struct FileStructure {
  Structure<S> structure;
  std::shared_ptr<onnx_file::ExternalBytes> external;                   // keeps external weights mapped
  IndexedVector<FileNodeIndex, const onnx_file::OnnxNode*> file_nodes;  // nodes_with_functions()
  // The structure nodes of the body of the local function that a node calls; empty for all other nodes.
  IndexedVector<FileNodeIndex, std::vector<NodeIndex<S>>> callee_nodes;
};

// `model` must outlive the result. Throws Error: corrupt_file for cycles and functions that call themselves, over_limit
// if calls expand to more nodes than any model has; and the errors of ExternalBytes.
template <Side S>
FileStructure<S> make_structure(const onnx_file::OnnxSummary& model);

// Releases the memory that reading a large tensor of this file took. The bytes stay readable.
// `external`: as make_structure() returned it; may be null.
void release_bytes(const onnx_file::OnnxSummary& model, const onnx_file::ExternalBytes* external,
                   const StructureTensor& tensor);

}  // namespace whence::match
