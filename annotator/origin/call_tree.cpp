#include "annotator/origin/call_tree.h"

#include <algorithm>
#include <vector>

#include "annotator/origin/scope_path.h"

namespace whence::origin {

CallIndex CallTree::add(ModuleCall call) {
  call.depth = call.parent.exists() ? (*this)[call.parent].depth + 1 : 0;
  return IndexedVector::add(std::move(call));
}

CallIndex CallTree::ancestor(CallIndex inner, int depth) const {
  while (inner.exists() && (*this)[inner].depth > depth) inner = (*this)[inner].parent;
  return inner.exists() && (*this)[inner].depth == depth ? inner : CallIndex();
}

bool CallTree::within(CallIndex inner, CallIndex outer) const {
  return outer.exists() && ancestor(inner, (*this)[outer].depth) == outer;
}

CallIndex CallTree::common(CallIndex a, CallIndex b) const {
  // A parent comes before its children, so the larger of two different indices cannot enclose the smaller.
  while (a != b && a.exists() && b.exists()) {
    CallIndex& deeper = a > b ? a : b;
    deeper = (*this)[deeper].parent;
  }
  return std::max(std::min(a, b), CallIndex(0));
}

CallIndex CallTree::together(CallIndex a, CallIndex b) const {
  return !a.exists() ? b : !b.exists() ? a : common(a, b);
}

std::string CallTree::scope_path(CallIndex call) const {
  std::vector<std::string> modules;
  for (; call.exists(); call = (*this)[call].parent) modules.push_back((*this)[call].path);
  std::ranges::reverse(modules);
  return origin::scope_path(modules);
}

}  // namespace whence::origin
