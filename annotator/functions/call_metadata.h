// Metadata of the nodes of a function that several modules share. Text that differs only by the module's name is
// written once, with `{module}` in place of the name; other differences are stored on the call, under keys::differs.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <onnx/onnx_pb.h>

#include "annotator/onnx_file/onnx_summary.h"

namespace whence::functions {

// Replaces the module's name with `{module}`, as whole segments only: for the module "encoder.layer.0",
// "encoder.layer.0.attention" becomes "{module}.attention".
std::string to_template(std::string_view text, std::string_view module);
std::string from_template(std::string_view text, std::string_view module);
void fill_template(std::string& text, std::string_view module);
// Returns true if from_template() makes `text` from the template.
bool fills_template(std::string_view text, std::string_view template_text, std::string_view module);

// A node of a function, in one of its calls.
struct FunctionNode {
  const onnx::NodeProto* node;
  std::string_view module;  // module of the call
};

// Compares the metadata of the nodes that a call replaces, in the order of for_each_node, with that of the function.
// Returns JSON: for each key an array that has, for each node, null if the function's value is right, false if the
// original has no such key, else the original value. Returns an empty text if nothing differs.
std::string differences(const std::vector<FunctionNode>& from_functions,
                        const std::vector<onnx_file::OnnxProperties>& originals);
// Applies differences() to the nodes. Throws Error(corrupt_file) if the JSON is not for this number of nodes.
void apply_differences(const std::string& differences, const std::vector<onnx::NodeProto*>& nodes);

// Visits a node, then the nodes of its bodies.
void for_each_node(onnx::NodeProto& node, const std::function<void(onnx::NodeProto&)>& visit);
void for_each_node(const onnx::NodeProto& node, const std::function<void(const onnx::NodeProto&)>& visit);

void set_metadata(onnx::NodeProto& node, std::string_view key, const std::string& value);

}  // namespace whence::functions
