// Reads nodes that build, take apart or compare containers, for traces and archives alike. A Program has no such nodes:
// their results are terms.
#pragma once

#include "recorder/program/term.h"

namespace whence::recorder::program {

// Returns the kind of container that the node builds from its inputs, if it builds one.
std::optional<Term::Kind> built_container(const torch::jit::Node& node);

// Returns the items that the node takes out of a container, one for each of its outputs. Null if it is not a node that
// unpacks, its input is not a container, or the container has another length.
std::shared_ptr<const std::vector<Term>> unpacked_items(const torch::jit::Node& node, const Term& input);

// Returns `a is b` for None and for values; empty if neither is None and one of them is not a value.
std::optional<bool> same_object(const Term& a, const Term& b);

// Return the scripted method or function that is called; null when it has no graph (custom C++ classes).
torch::jit::Function* called_method(const torch::jit::Node& call_method);
torch::jit::Function* called_function(const torch::jit::Node& call_function);

}  // namespace whence::recorder::program
