// The tensors in an argument of forward, including its nested tuples, lists and dicts, in the order in which they
// become inputs of the graph.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "recorder/base/torch_pch.h"

namespace whence::recorder::inputs {

struct Leaf {
  std::string name;  // of the graph's input: "hc.0" is the first element of the tuple hc
  at::Tensor tensor;
};

// Returns the tensors of `value`, an argument with this name.
std::vector<Leaf> leaves(const c10::IValue& value, const std::string& name);

// Returns a copy of `value` with each tensor replaced with the result of `change`.
c10::IValue map_tensors(const c10::IValue& value, const std::function<at::Tensor(const at::Tensor&)>& change);

}  // namespace whence::recorder::inputs
