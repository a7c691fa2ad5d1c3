// A block: a region in a form in which equal regions are equal: its nodes in an order of their own, its values numbered
// by what makes or first reads them. Regions with the same key compute the same from the same inputs.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "annotator/functions/region.h"

namespace whence::functions {

// A value of a region, by the node that makes it.
struct BlockOutput {
  std::int32_t node = 0;    // position in ModuleBlock::nodes
  std::int32_t output = 0;  // which of its outputs

  auto operator<=>(const BlockOutput&) const = default;
};

struct ModuleBlock {
  InstanceId instance = no_instance;
  std::vector<std::int32_t> nodes;  // of the work graph, in the block's order
  std::vector<ValueId> inputs;      // activations and weights, in order of first use
  std::vector<ValueId> constants;   // sizes, axes, flags: what they hold is part of the key; one of each content
  // Single numbers and the like: equal blocks may hold others (a scale, an epsilon). One of each content.
  std::vector<ValueId> scalars;
  std::vector<std::string> scalar_contents;
  std::vector<BlockOutput> outputs;  // read outside, ascending
  std::string key;                   // xxh3-128
};

ModuleBlock block_of(const WorkGraph& graph, const Region& region);

// A node as it is among equal ones: values as `rename` gives them, no name, no metadata, attributes by name; the values
// of its bodies are numbered. As bytes.
std::string normal_form(const onnx_file::OnnxNode& node, const std::function<std::string(const std::string&)>& rename);
// A tensor's dtype, shape and values, without its name.
std::string content_of(onnx::TensorProto tensor);
std::string content_of(const onnx_file::OnnxTensor& tensor);

}  // namespace whence::functions
