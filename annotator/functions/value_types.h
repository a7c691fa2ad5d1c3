// Types of a graph's values: those that the file states, and those that ONNX's shape inference finds.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "annotator/functions/model_parts.h"
#include "schema/flat_map.h"

namespace whence::functions {

// Numbers for dynamic sizes, by name: {"batch", 1}; "" for sizes of inputs without a name.
using Sizes = std::map<std::string, std::int64_t>;

// Types by name of the value, if they are stated or found; equal types are shared. Includes values in bodies, unless
// another value has their name.
using ValueTypes = FlatMap<std::string, std::shared_ptr<const onnx::TypeProto>>;
ValueTypes value_types(const ModelParts& parts, const Sizes& sizes = {});

}  // namespace whence::functions
