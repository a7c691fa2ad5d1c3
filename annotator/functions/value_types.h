// Types of a graph's values: those that the file states, the rest by onnx's shape inference.
#pragma once

#include <map>
#include <string>

#include "annotator/functions/model_parts.h"

namespace whence::functions {

using Sizes = std::map<std::string, std::int64_t>;  // numbers for dynamic sizes, by their name: {"batch", 1}

// By name. What inference cannot tell is missing.
std::map<std::string, onnx::TypeProto> value_types(const ModelParts& parts, const Sizes& sizes = {});

}  // namespace whence::functions
