// NodeOrigin: the recorded operations that an ONNX node implements.
#pragma once

#include <cstdint>
#include <vector>

namespace whence::origin {

enum class OriginKind : std::uint8_t {
  own,     // part of the conversion of one operation
  fused,   // replaces several operations (Conv with a folded BatchNorm): belongs to all their modules
  shared,  // used by several operations (a folded constant, a common shape computation)
};

struct NodeOrigin {
  OriginKind kind = OriginKind::own;
  std::vector<std::int32_t> ops;  // Origin::op of each, ascending, distinct; empty only for `shared`
};

// Returns the origin of a node that replaces nodes with origins a and b.
NodeOrigin merge_origins(const NodeOrigin& a, const NodeOrigin& b, OriginKind kind);
// Adds an operation; constant time if its index is the largest.
void add_op(NodeOrigin& origin, std::int32_t op);

}  // namespace whence::origin
