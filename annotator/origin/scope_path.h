// Scope paths: the module of a scope as nodes have it in their names, in the form PyTorch's TorchScript exporter made
// known: `/encoder/layer.0/attention/self/query`.
#pragma once

#include <string>
#include <vector>

#include "annotator/origin/node_origin.h"
#include "schema/program.h"

namespace whence::origin {

// `/encoder/layer.0/attention`: the qualified name of the scope's module, cut where it crosses from one called module
// into the next, so that containers that are never called stay one segment with their children; a child that is only a
// number takes its container along: `/layer1/layer1.0/conv1`. "" for the root.
std::string scope_path(const Program& program, ScopeId scope);
// The same of the last of `modules`: the qualified names of called modules, each called in the one before it.
std::string scope_path(const std::vector<std::string>& modules);

// The deepest scope that holds all operations of an origin; the root's when there is none.
ScopeId scope_of(const NodeOrigin& origin, const Program& program, const std::vector<const Node*>& operations);

}  // namespace whence::origin
