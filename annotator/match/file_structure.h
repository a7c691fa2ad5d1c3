// FileStructure: the Structure of an ONNX file as read. Names are resolved through bodies, local functions laid out at
// each call, attributes digested, small constants read.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "annotator/match/structure.h"
#include "annotator/onnx_file/external_bytes.h"
#include "annotator/onnx_file/onnx_summary.h"

namespace whence::match {

// The file's nodes in one list: those of the graph, of a node's bodies behind it, then those of each local function.
// The order in which OnnxRewrite visits them.
std::vector<const onnx_file::OnnxNode*> nodes_with_functions(const onnx_file::OnnxSummary& model);

template <Side S>
struct FileStructure {
  Structure<S> structure;
  std::shared_ptr<onnx_file::ExternalBytes> external;                   // keeps weights beside the model mapped
  IndexedVector<FileNodeIndex, const onnx_file::OnnxNode*> file_nodes;  // nodes_with_functions()
  // The structure nodes that stand for the body of the local function that a node calls; empty for all others.
  IndexedVector<FileNodeIndex, std::vector<NodeIndex<S>>> callee_nodes;
};

// `model` must outlive the result. Throws Error: corrupt_file for cycles and functions that call themselves, over_limit
// when calls lay out to more nodes than any model has; those of ExternalBytes.
template <Side S>
FileStructure<S> make_structure(const onnx_file::OnnxSummary& model);

// Gives the memory back that reading a large tensor of this file took. The bytes stay readable.
void release_bytes(const onnx_file::OnnxSummary& model, const StructureTensor& tensor);

}  // namespace whence::match
