// One ONNX function for a group of equal blocks, and the call that takes the place of each.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "annotator/functions/block.h"

namespace whence::functions {

using ValueTypes = std::map<std::string_view, std::string_view>;  // TypeProto messages, by name

// A call, and the nodes that it stands for, as they were: whence::inline gives them back.
struct CutCall {
  onnx::NodeProto node;
  InstanceId instance = no_instance;
  // Their messages, in the order of the function's nodes, constants that were pulled in left out.
  std::vector<std::string_view> originals;
};

struct CutFunction {
  onnx::FunctionProto proto;
  std::vector<CutCall> calls;
};

// `blocks`: at least one, with equal keys. `types`: of values, by name. `name`: of the function, in its domain
// (function_name, made unique). The domain of the function is the Python module of its class, as in PyTorch's
// export_modules_as_functions.
CutFunction make_function(const WorkGraph& graph, const std::vector<const ModuleBlock*>& blocks,
                          const ValueTypes& types, const std::string& name);

// Name and domain of the function of a module, from its class or, where the file does not say it, from its name.
std::string function_name(const Instance& instance);
std::string function_domain(const Instance& instance);
// "layer1.0" as part of such a name: "layer1_0".
std::string identifier(const std::string& text);

// The module that a call stands for, `/encoder/layer.0` as exporters write it in names of nodes.
std::string slash_path(const Instances& instances, InstanceId id);

}  // namespace whence::functions
