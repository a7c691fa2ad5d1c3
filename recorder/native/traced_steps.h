// A trace as a list of steps that can be compared with another trace of the same module at another size.
#pragma once

#include <optional>
#include <vector>

#include "recorder/base/torch_pch.h"
#include "recorder/native/session.h"

namespace whence::native {

struct Step {
  torch::jit::Node* node = nullptr;                   // null, or a node of a trace that still exists
  std::string kind;                                   // "aten::view"
  std::vector<std::size_t> inputs;                    // the values it reads, numbered over the trace
  std::vector<std::size_t> outputs = {};              // the values it makes, likewise
  std::vector<std::vector<std::int64_t>> sizes = {};  // sizes of each output, none if it is not a tensor
  std::optional<c10::IValue> constant = {};           // the value, if it is a constant
  NativeStack stack = {};                             // place in the program that recorded it; empty for a constant
  std::string module = {};                            // the module it is in
  std::string layer = {};  // the class of the module if it is one of LibTorch's: "torch::nn::LinearImpl"
};

// Returns the steps of a trace that LibTorch has not yet split into methods; nodes in scopes stand in their place.
// aten::contiguous is not a step: LibTorch records it only at sizes at which it copies, and its result has equal
// content.
std::vector<Step> steps_of(torch::jit::Graph& graph, const Session& session);

// Returns the first step that is not the same operation on the same values; none when only constants differ.
std::optional<std::size_t> first_difference(const std::vector<Step>& a, const std::vector<Step>& b);

// Returns the operation that reads the constant of a step.
const Step& reader_of(const std::vector<Step>& steps, std::size_t constant);

}  // namespace whence::native
