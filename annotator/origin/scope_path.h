// Scope paths: the module of a scope in the form of node names, as in PyTorch's TorchScript exporter:
// `/encoder/layer.0/attention/self/query`.
#pragma once

#include <string>
#include <vector>

#include "annotator/origin/node_origin.h"
#include "schema/program.h"

namespace whence::origin {

// Returns `/encoder/layer.0/attention`: the qualified name of the scope's module with a slash between called modules. A
// container that is never called stays in one segment with its child. A numbered child repeats its container's name:
// `/layer1/layer1.0/conv1`. Returns "" for the root.
std::string scope_path(const Program& program, ScopeId scope);
// Returns the path of the last of `modules`, qualified names of called modules, each called by the previous one.
std::string scope_path(const std::vector<std::string>& modules);

// Returns the deepest scope that encloses all operations of an origin; the root if it has no operations.
ScopeId scope_of(const NodeOrigin& origin, const Program& program, const std::vector<const Node*>& operations);

}  // namespace whence::origin
