// Operators that become nodes of a domain of their own, with the arguments of the call: for the user's ONNX functions,
// for a runtime that has the operator, or for a tool that replaces the node in the file.
#pragma once

#include <string>
#include <vector>

#include "schema/program.h"

namespace whence::convert {

// The arguments of a call, exactly, as JSON by name: numbers, texts, flags, lists and null as they are, {"input": 2}
// for the node's third input, {"dtype": "float32"}, {"keyword": "cpu"}, {"complex": [0, 1]}, {"number": "inf"}.
std::string arguments_as_json(const Node& node, const std::vector<Argument>& inputs);

}  // namespace whence::convert
