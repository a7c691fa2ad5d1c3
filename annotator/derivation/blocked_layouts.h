// The layouts in which ONNX Runtime's optimiser stores weights for its blocked convolutions.
//
// Source: onnxruntime/core/mlas/lib/reorder.cpp, MlasReorderFilterOIHWBiBo and MlasReorderFilterOIHWBo.
#pragma once

#include <vector>

#include "annotator/derivation/expression.h"
#include "annotator/derivation/file_tensors.h"

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

}  // namespace whence::derivation
