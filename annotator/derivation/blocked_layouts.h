// The layouts in which ONNX Runtime's optimiser stores weights for its blocked convolutions.
//
// Source: onnxruntime/core/mlas/lib/reorder.cpp, MlasReorderFilterOIHWBiBo and MlasReorderFilterOIHWBo.
#pragma once

#include <vector>

#include "annotator/derivation/expression.h"
#include "annotator/derivation/file_tensors.h"
#include "schema/tensor_data.h"

namespace whence::derivation {

// Sizes [outputs, inputs, height, width] as blocks, and the order of their axes in the file.
struct BlockedLayout {
  std::vector<std::int64_t> dims, split;  // of the weight; with outputs and inputs divided into blocks
  std::vector<std::int64_t> order;        // axis i in the file is axis order[i] of `split`

  Expression blocked(Expression weight) const;  // from the weight to the file
  Expression plain(Expression stored) const;    // from the file to the weight
};

// Returns the layouts that a tensor may have; empty unless a blocked convolution reads it.
std::vector<BlockedLayout> blocked_layouts(const FileTensor& tensor);

// Returns the sizes without the channels of zeros that fill up the last block of outputs (axis 0) and inputs (axis 1).
std::vector<std::int64_t> without_padding(const TensorData& plain);

// Returns true if a blocked convolution reads the tensor as its input `slot`.
bool reads_in_blocks(const FileTensor& tensor, std::size_t slot);

}  // namespace whence::derivation
