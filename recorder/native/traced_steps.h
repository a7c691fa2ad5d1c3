// A trace as a list of steps, to compare traces of one module at different sizes.
#pragma once

#include <optional>
#include <vector>

#include "recorder/base/torch_pch.h"
#include "recorder/native/session.h"

namespace whence::native {

struct Step {
  torch::jit::Node* node = nullptr;                   // null, or a node of a trace that still exists
  std::string kind;                                   // "aten::view"
  std::vector<std::size_t> inputs;                    // the values it reads, numbered over the whole trace
  std::vector<std::size_t> outputs = {};              // the values it produces, numbered over the whole trace
  std::vector<std::vector<std::int64_t>> sizes = {};  // sizes of each output, empty if it is not a tensor
  std::optional<c10::IValue> constant = {};           // the value, if it is a constant
  NativeStack stack = {};                             // the stack at which it was recorded; empty for a constant
  std::string module = {};                            // the module it belongs to
  std::string layer = {};  // the class of the module if it is one of LibTorch's: "torch::nn::LinearImpl"
};

// Returns the steps of a trace that LibTorch has not yet split into methods; the nodes of a scope take its place.
// aten::contiguous is not a step: LibTorch records it only at sizes at which it copies, and it does not change data.
std::vector<Step> steps_of(torch::jit::Graph& graph, const Session& session);

// Returns the first step that is not the same operation on the same values; none if only constants differ.
std::optional<std::size_t> first_difference(const std::vector<Step>& a, const std::vector<Step>& b);

// Returns the operation that reads the constant at step `constant`.
const Step& reader_of(const std::vector<Step>& steps, std::size_t constant);

}  // namespace whence::native
