// ModuleBlock: a region in normal form, so that equal regions compare equal. The order of its nodes does not depend on
// the file, and its values are numbered by the node that produces or first reads them. Regions with equal keys compute
// equal results from equal inputs.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "annotator/functions/region.h"

namespace whence::functions {

// An output of a node in a block.
struct BlockOutput {
  std::int32_t node = 0;    // position in ModuleBlock::nodes
  std::int32_t output = 0;  // index among its outputs

  auto operator<=>(const BlockOutput&) const = default;
};

struct ModuleBlock {
  CallIndex instance;
  std::vector<std::int32_t> nodes;  // nodes of the work graph, in the block's order
  std::vector<ValueId> inputs;      // activations and weights, in order of first use
  std::vector<ValueId> constants;   // sizes, axes, flags; one of each content, which is part of the key
  // Small tensors of other dtypes, one of each content. The content (a scale, an epsilon) may differ in equal blocks.
  std::vector<ValueId> scalars;
  std::vector<std::string> scalar_contents;
  std::vector<BlockOutput> outputs;  // outputs that are needed outside the block, ascending
  std::string key;                   // xxh3-128
};

ModuleBlock block_of(const WorkGraph& graph, const Region& region);

// Returns the bytes of a node in normal form: values renamed by `rename`, no name, no metadata, attributes sorted by
// name, and values of its bodies numbered.
std::string normal_form(const onnx_file::OnnxNode& node, const std::function<std::string(const std::string&)>& rename);
// Returns a tensor's dtype, shape and elements as bytes, without its name.
std::string content_of(onnx::TensorProto tensor);
std::string content_of(const onnx_file::OnnxTensor& tensor);

}  // namespace whence::functions
