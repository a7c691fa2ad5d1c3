// Reads a node's metadata, and renames the values that it reads and writes, also in bodies of If, Loop and Scan.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <onnx/onnx_pb.h>

#include "annotator/onnx_file/onnx_summary.h"

namespace whence::functions {

// Returns the value under `key` in the metadata of a node or function; empty if there is none.
template <class Owner>
std::string_view metadata_of(const Owner& owner, std::string_view key) {
  return onnx_file::find_property(owner.metadata, key).value_or("");
}

// Calls `visit` for each graph in the node's attributes: branches and loop bodies.
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

using Rename = std::function<std::string(const std::string&)>;  // from the old name to the new; called for every value

// Renames the values that the node reads and writes, and the outer values that its bodies read. Values that a body
// defines keep their names, so the new names must differ from them.
void rename_values(onnx::NodeProto& node, const Rename& rename);

// Renames the values that the node's bodies define, and all uses of them.
void rename_inner_values(onnx::NodeProto& node, const Rename& rename);

}  // namespace whence::functions
