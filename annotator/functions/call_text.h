// Metadata of the nodes of a function that stands for several modules. Text that differs only by the module's name is
// written once, with `{module}` in place of the name; other differences are kept at the call, under keys::differs.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <onnx/onnx_pb.h>

#include "annotator/onnx_file/onnx_summary.h"

namespace whence::functions {

// "encoder.layer.0.attention" of the module "encoder.layer.0" is "{module}.attention"; whole segments only.
std::string to_template(std::string_view text, std::string_view module);
std::string from_template(std::string_view text, std::string_view module);
void fill_template(std::string& text, std::string_view module);
// Returns true if `text` is what from_template() makes of the template.
bool fills_template(std::string_view text, std::string_view of_template, std::string_view module);

// A node of a function as a call means it.
struct FunctionNode {
  const onnx::NodeProto* node;
  std::string_view module;  // the call's
};

// Returns how the metadata of the nodes that a call stands for, in the order of for_each_node, differs from the
// function's. JSON: by key an array with, for each node, null if the function's value is right, false if the key is
// absent, else the value. Empty when nothing differs.
std::string differences(const std::vector<FunctionNode>& from_functions,
                        const std::vector<onnx_file::OnnxProperties>& originals);
// Puts them onto the nodes. Throws Error(corrupt_file) when they are of other nodes.
void apply_differences(const std::string& differences, const std::vector<onnx::NodeProto*>& nodes);

// A node, then those of its bodies.
void for_each_node(onnx::NodeProto& node, const std::function<void(onnx::NodeProto&)>& visit);
void for_each_node(const onnx::NodeProto& node, const std::function<void(const onnx::NodeProto&)>& visit);

void set_metadata(onnx::NodeProto& node, std::string_view key, const std::string& value);

}  // namespace whence::functions
