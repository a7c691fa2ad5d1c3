#include "annotator/origin/node_origin.h"

#include <algorithm>
#include <iterator>

namespace whence::origin {

NodeOrigin merge_origins(const NodeOrigin& a, const NodeOrigin& b, OriginKind kind) {
  NodeOrigin merged{kind, {}};
  merged.ops.reserve(a.ops.size() + b.ops.size());
  std::set_union(a.ops.begin(), a.ops.end(), b.ops.begin(), b.ops.end(), std::back_inserter(merged.ops));
  return merged;
}

void add_op(NodeOrigin& origin, std::int32_t op) {
  auto& ops = origin.ops;
  if (ops.empty() || op > ops.back()) {
    ops.push_back(op);
    return;
  }
  const auto place = std::lower_bound(ops.begin(), ops.end(), op);
  if (*place != op) ops.insert(place, op);
}

}  // namespace whence::origin
