// Types of a graph's values: those that the file states, and those that ONNX's shape inference finds.
#pragma once

#include <map>
#include <string>

#include "annotator/functions/model_parts.h"

namespace whence::functions {

using Sizes = std::map<std::string, std::int64_t>;  // numbers for dynamic sizes, by their name: {"batch", 1}

// Returns the types by name, without values whose type inference cannot find.
std::map<std::string, onnx::TypeProto> value_types(const ModelParts& parts, const Sizes& sizes = {});

}  // namespace whence::functions
