// A block: a region in a normal form, so that equal regions compare equal: nodes in an order that does not depend on
// the file, values numbered by the node that makes or first reads them. Regions with the same key compute the same from
// the same inputs.
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
  CallIndex instance;
  std::vector<std::int32_t> nodes;  // nodes of the work graph, in the block's order
  std::vector<ValueId> inputs;      // activations and weights, in order of first use
  std::vector<ValueId> constants;   // sizes, axes, flags, one of each content; the content is part of the key
  // Single numbers and the like, one of each content. Equal blocks may have different ones (a scale, an epsilon).
  std::vector<ValueId> scalars;
  std::vector<std::string> scalar_contents;
  std::vector<BlockOutput> outputs;  // outputs that nodes outside read, ascending
  std::string key;                   // xxh3-128
};

ModuleBlock block_of(const WorkGraph& graph, const Region& region);

// Returns the bytes of a node in a normal form: values renamed by `rename`, no name, no metadata, attributes sorted by
// name; the values of its bodies are numbered.
std::string normal_form(const onnx_file::OnnxNode& node, const std::function<std::string(const std::string&)>& rename);
// A tensor's dtype, shape and values, without its name.
std::string content_of(onnx::TensorProto tensor);
std::string content_of(const onnx_file::OnnxTensor& tensor);

}  // namespace whence::functions
