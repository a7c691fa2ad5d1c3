// NodeOrigin: the recorded operations that an ONNX node stands for.
#pragma once

#include <cstdint>
#include <vector>

namespace whence::origin {

// The recorded operations that a node stands for.
enum class OriginKind : std::uint8_t {
  own,     // part of the conversion of one operation
  fused,   // replaces several operations (Conv with BatchNorm folded in): belongs to all their modules
  shared,  // a helper that serves several operations (a folded constant, a common shape computation)
};

struct NodeOrigin {
  OriginKind kind = OriginKind::own;
  std::vector<std::int32_t> ops;  // Origin::op of each, ascending, distinct; never empty
};

// The origin of a node that takes the place of nodes with origins a and b.
NodeOrigin merge_origins(const NodeOrigin& a, const NodeOrigin& b, OriginKind kind);
// Adds one operation; constant time when it is the newest.
void add_op(NodeOrigin& origin, std::int32_t op);

}  // namespace whence::origin
