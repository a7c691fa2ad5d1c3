// The tensors in an argument of forward, also in the tuples, lists and dicts that it consists of, in the order in which
// they become inputs of the graph.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "recorder/base/torch_pch.h"

namespace whence::recorder::inputs {

struct Leaf {
  std::string name;  // as an input of the graph: "hc.0" is the first of the tuple hc
  at::Tensor tensor;
};

// Those of `value`, which the graph calls `name`.
std::vector<Leaf> leaves(const c10::IValue& value, const std::string& name);

// A copy with what `change` makes of each tensor in its place.
c10::IValue mapped(const c10::IValue& value, const std::function<at::Tensor(const at::Tensor&)>& change);

}  // namespace whence::recorder::inputs
