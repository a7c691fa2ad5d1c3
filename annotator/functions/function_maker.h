// Makes one ONNX function for a group of equal blocks, and the call that replaces each block.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "annotator/functions/block.h"

namespace whence::functions {

using TypeMessages = std::map<std::string_view, std::string_view>;  // TypeProto messages, by name

// A call, and the original nodes that it replaces, which `whence inline` restores.
struct CutCall {
  onnx::NodeProto node;
  CallIndex instance;
  // Messages of the original nodes, in the order of the function's nodes, without its copied constants.
  std::vector<std::string_view> originals;
};

struct CutFunction {
  onnx::FunctionProto proto;
  std::vector<CutCall> calls;
};

// Makes the function of `blocks`: at least one, with equal keys. `types`: by name of the value. `name`: the function's
// name, which no other function or operator in its domain has (function_name). The function's domain is the Python
// module of its class, as in PyTorch's export_modules_as_functions.
CutFunction make_function(const WorkGraph& graph, const std::vector<const ModuleBlock*>& blocks,
                          const TypeMessages& types, const std::string& name);

// Return the name and domain of a module's function, from its class or, if the file does not state it, its name.
std::string function_name(const ModuleCall& instance);
std::string function_domain(const ModuleCall& instance);
// Returns a text as part of such a name: "layer1_0" for "layer1.0".
std::string identifier(const std::string& text);

}  // namespace whence::functions
