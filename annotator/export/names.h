// Names of a finished graph: every node says in its name which module it belongs to, in the form PyTorch's TorchScript
// exporter made known: `/encoder/layer.0/attention/self/query/MatMul`, `_1`, `_2`, ... when repeated.
#pragma once

#include <string>
#include <vector>

#include "annotator/graph/graph.h"
#include "schema/program.h"

namespace whence {

// Names nodes (those of bodies too), their results (`<node name>_output_0`) and constants. Graph inputs and outputs
// keep the names they have, unnamed outputs become `output`, or `output_0`, `output_1` when there are several;
// initializers that have a name (parameters, what was computed from one) keep it, others are constants of their module.
// `program`: the one that was recorded, to whose operations the origins point.
void name_nodes(Graph& graph, const Program& program);

// `/encoder/layer.0/attention`: the qualified name of the scope's module, cut where it crosses from one called module
// into the next, so that containers that are never called stay one segment with their children; a child that is only a
// number takes its container along: `/layer1/layer1.0/conv1`. "" for the root.
std::string scope_path(const Program& program, ScopeId scope);
// The same of the last of `modules`: the qualified names of called modules, each called in the one before it.
std::string scope_path(const std::vector<std::string>& modules);

// The deepest scope that holds all operations of an origin; the root's when there is none.
ScopeId scope_of(const NodeOrigin& origin, const Program& program, const std::vector<const Node*>& operations);

}  // namespace whence
