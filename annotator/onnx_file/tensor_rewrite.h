// Copies a model with new numbers in some tensors, wherever the model stores them. Everything else keeps its bytes.
#pragma once

#include <functional>
#include <vector>

#include "annotator/onnx_file/carried_data.h"
#include "annotator/onnx_file/onnx_rewrite.h"
#include "annotator/onnx_file/onnx_summary.h"

namespace whence::onnx_file {

struct NewTensor {
  const OnnxTensor* tensor = nullptr;  // of the model
  std::function<Bytes()> make;         // as many bytes in the layout of raw data as the tensor has
};

// What is added to the graph besides new numbers.
struct GraphAddition {
  NodeEditor* nodes = nullptr;    // null: no node is edited
  std::string graph_fields = {};  // as in ModelEdit
};

// Writes the model with its data files, which get the output's name. New numbers are computed when they are written, so
// one tensor at a time is in memory. `output` must be another file. Throws the errors of OnnxRewrite, CarriedData and
// OutputFiles; Error(unsupported_feature) if two of the tensors share bytes of a data file in part.
void rewrite_tensors(const OnnxSummary& model, const ModelSource& input, ModelOutput output,
                     const std::vector<NewTensor>& tensors, const GraphAddition& addition = {});

}  // namespace whence::onnx_file
