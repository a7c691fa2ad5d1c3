// The indices of a comparison (schema/index.h). Both sides have nodes, values and tensors, so their index types also
// have a Side: code that confuses the sides does not compile. Structure and code for either side are templates over
// Side, at no cost at run time.
#pragma once

#include <cstdint>

#include "annotator/origin/call_tree.h"
#include "schema/index.h"

namespace whence::match {

enum class Side : std::uint8_t { foreign, reference };

namespace kind {
template <Side>
struct Node;
template <Side>
struct Value;
template <Side>
struct Tensor;
struct FileNode;
struct Unit;
struct Parameter;
}  // namespace kind

// Indices into the lists of a Structure (structure.h).
template <Side S>
using NodeIndex = Index<kind::Node<S>>;
template <Side S>
using ValueIndex = Index<kind::Value<S>>;
template <Side S>
using TensorIndex = Index<kind::Tensor<S>>;

using ForeignNode = NodeIndex<Side::foreign>;
using ForeignValue = ValueIndex<Side::foreign>;
using ForeignTensor = TensorIndex<Side::foreign>;
using ReferenceNode = NodeIndex<Side::reference>;
using ReferenceValue = ValueIndex<Side::reference>;
using ReferenceTensor = TensorIndex<Side::reference>;

using FileNodeIndex = Index<kind::FileNode>;  // into FileStructure::file_nodes

// Indices into the lists of a Reference (reference.h). Units and scopes of a program's reference have the numbers of
// its operations and scopes.
using UnitIndex = Index<kind::Unit>;
using ScopeIndex = origin::CallIndex;
using ParameterIndex = Index<kind::Parameter>;
constexpr ScopeIndex root_scope(0);

}  // namespace whence::match
