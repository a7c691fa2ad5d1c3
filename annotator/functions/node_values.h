// What a node holds and reads, and how its values are renamed, bodies of If, Loop and Scan included.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <onnx/onnx_pb.h>

namespace whence::functions {

// The value under `key` of a node's or a function's metadata; empty when there is none.
template <class Owner>
const std::string& metadata_of(const Owner& owner, std::string_view key) {
  static const std::string none;
  for (const onnx::StringStringEntryProto& entry : owner.metadata_props()) {
    if (entry.key() == key) return entry.value();
  }
  return none;
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

}  // namespace whence::functions
