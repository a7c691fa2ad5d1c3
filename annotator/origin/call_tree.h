// CallTree: the calls of modules, each below the call that made it; a parent comes before its children. Nodes of ONNX
// files and recorded operations belong to these calls.
#pragma once

#include <cstdint>
#include <string>

#include "schema/index.h"

namespace whence::origin {

struct ModuleCall;
using CallIndex = Index<ModuleCall>;

// One call of one module.
struct ModuleCall {
  CallIndex parent;  // does not exist for the root
  std::string path;  // qualified name; "" is the root
  std::int32_t call = 0;
  std::string type = {};       // class, "torch.nn.modules.linear.Linear"; empty if unknown
  std::string name_path = {};  // path in exporters' node names, "/encoder/layer.0"; empty unless used for matching
  int depth = 0;               // number of enclosing calls
};

// Returns true for Sequential and other containers, which group modules and compute nothing.
inline bool is_container(const ModuleCall& call) { return call.type.starts_with("torch.nn.modules.container."); }

class CallTree : public IndexedVector<CallIndex, ModuleCall> {
 public:
  // Adds a call; sets its depth from its parent.
  CallIndex add(ModuleCall call);

  // Returns the call at depth `depth` that encloses `inner`; none if `inner` is less deep.
  CallIndex ancestor(CallIndex inner, int depth) const;
  // Returns true if `inner` is `outer` or is enclosed by it at any depth.
  bool within(CallIndex inner, CallIndex outer) const;
  // Returns the innermost call around both; the root if one does not exist.
  CallIndex common(CallIndex a, CallIndex b) const;
  // Returns common() if both exist, else the call that exists.
  CallIndex together(CallIndex a, CallIndex b) const;
  // Returns the called modules in the form of node names (scope_path.h).
  std::string scope_path(CallIndex call) const;
};

}  // namespace whence::origin
