// CallTree: the calls of modules, each below the call that it was made in; a parent stands before its children. Nodes
// of ONNX files and what they are compared with belong to such calls.
#pragma once

#include <cstdint>
#include <string>

#include "schema/index.h"

namespace whence::origin {

struct ModuleCall;
using CallIndex = Index<ModuleCall>;

// One call of one module.
struct ModuleCall {
  CallIndex parent;  // none for the root
  std::string path;  // qualified name; "" is the root
  std::int32_t call = 0;
  std::string type = {};  // class, "torch.nn.modules.linear.Linear"; empty when it is not known
  std::string name_path =
      {};         // as exporters put it in node names, "/encoder/layer.0"; empty unless the tree is for matching
  int depth = 0;  // calls around it
};

// True for a Sequential and the like, which group modules and compute nothing themselves.
inline bool is_container(const ModuleCall& call) { return call.type.starts_with("torch.nn.modules.container."); }

class CallTree : public IndexedVector<CallIndex, ModuleCall> {
 public:
  // Adds a call; its depth follows from its parent.
  CallIndex add(ModuleCall call);

  // Returns the call at depth `depth` in which `inner` was made; none when `inner` is less deep.
  CallIndex ancestor(CallIndex inner, int depth) const;
  // True when `inner` is `outer`, or was made in it, at any depth.
  bool within(CallIndex inner, CallIndex outer) const;
  // Returns the innermost call around both; the root when one does not exist.
  CallIndex common(CallIndex a, CallIndex b) const;
  // Returns the common call, or the one that exists.
  CallIndex together(CallIndex a, CallIndex b) const;
  // Returns the called modules as node names have them (scope_path.h).
  std::string scope_path(CallIndex call) const;
};

}  // namespace whence::origin
