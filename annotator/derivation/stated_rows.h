// The rows of a statement: which tensor or node of the file each is about. A statement has one row for each, in the
// order of FileTensors and of all_nodes(); so a row that is listed twice, or in place of another, shows.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "annotator/derivation/contents.h"
#include "annotator/derivation/file_tensors.h"
#include "annotator/onnx_file/onnx_summary.h"

namespace whence::derivation {

// Returns the name of a tensor's dtype in the file. PyTorch has no integers of four bits.
std::string dtype_name(int onnx_type);

// Returns the name of a node; if it has none, that of its first result.
std::string node_name(const onnx_file::OnnxNode& node);

// Return how the rows differ from the file's tensors (name, dtype, dims, bytes) or nodes (name, op_type); nullopt if
// they do not. The first throws as Contents::of.
std::optional<std::string> difference_in_tensors(const nlohmann::ordered_json& rows, const FileTensors& tensors,
                                                 Contents& contents);
std::optional<std::string> difference_in_nodes(const nlohmann::ordered_json& rows, const onnx_file::OnnxGraph& graph);

}  // namespace whence::derivation
