// Reads a node's metadata and renames the values that it reads and writes, bodies of If, Loop and Scan included.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <onnx/onnx_pb.h>

#include "annotator/onnx_file/onnx_summary.h"

namespace whence::functions {

// The value under `key` of a node's or a function's metadata; empty when there is none.
template <class Owner>
std::string_view metadata_of(const Owner& owner, std::string_view key) {
  return onnx_file::find_property(owner.metadata, key).value_or("");
}

// Calls `visit` for each graph that the node's attributes hold: branches, loop bodies.
template <class Visit>
void for_each_body(const onnx::NodeProto& node, const Visit& visit) {
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.has_g()) visit(attribute.g());
    for (const onnx::GraphProto& body : attribute.graphs()) visit(body);
  }
}
template <class Visit>
void for_each_body(onnx::NodeProto& node, const Visit& visit) {
  for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
    if (attribute.has_g()) visit(*attribute.mutable_g());
    for (onnx::GraphProto& body : *attribute.mutable_graphs()) visit(body);
  }
}

using Rename = std::function<std::string(const std::string&)>;  // old name to new; asked for every value

// Renames the values that the node reads and writes, and those that its bodies capture. Values that a body defines
// itself keep their names, so the new names must differ from them.
void rename_values(onnx::NodeProto& node, const Rename& rename);

// Renames every value that the node's bodies define, and its uses.
void rename_inner_values(onnx::NodeProto& node, const Rename& rename);

}  // namespace whence::functions
