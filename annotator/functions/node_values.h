// What a node reads and how its values are renamed, bodies of If, Loop and Scan included.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <onnx/onnx_pb.h>

namespace whence {

// Values of the enclosing graph that a node reads: its inputs and what its bodies capture; distinct, in order of first
// use. An optional input that is left out is not among them.
std::vector<std::string> values_read(const onnx::NodeProto& node);

using Rename = std::function<std::string(const std::string&)>;  // old name to new; asked for every value

// Renames what the node reads and writes, and in its bodies what they capture. Values that a body defines itself keep
// their names, so the new names must be others than those.
void rename_values(onnx::NodeProto& node, const Rename& rename);

// Calls `visit` for every value that the node's bodies define.
void for_each_inner_value(const onnx::NodeProto& node, const std::function<void(const std::string&)>& visit);
// Renames every value that the node's bodies define, and its uses.
void rename_inner_values(onnx::NodeProto& node, const Rename& rename);

}  // namespace whence
