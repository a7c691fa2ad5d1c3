// Types of a graph's values: those that the file states, and those that ONNX's shape inference finds.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "annotator/functions/model_parts.h"
#include "schema/flat_map.h"

namespace whence::functions {

using Sizes = std::map<std::string, std::int64_t>;  // numbers for dynamic sizes, by their name: {"batch", 1}; "":
                                                    // inputs' without one

// Types by name, without values whose type inference cannot find; values of one type share it. Those of bodies are
// among them, unless another value has the name.
using ValueTypes = FlatMap<std::string, std::shared_ptr<const onnx::TypeProto>>;
ValueTypes value_types(const ModelParts& parts, const Sizes& sizes = {});

}  // namespace whence::functions
