// Reductions keep the axes along which they reduce, with one element, or not (`keepdims`). Exporters and optimisers
// join this with a node after it that adds or removes axes. Compares how many axes the results have behind such nodes.
#pragma once

#include "annotator/comparison/operation_forms.h"
#include "annotator/derivation/file_tensors.h"
#include "annotator/onnx_file/onnx_summary.h"

namespace whence::comparison {

// Compares a reduction of the file, which keeps the axes or not, with that of a form, which does the opposite. Returns
// true if what reads both results gets the same number of axes.
bool same_axes_after(const onnx_file::OnnxNode& node, bool keeps, const OperationForms::FormNode& form,
                     const onnx_file::OnnxGraph& file, const derivation::FileTensors& tensors);

}  // namespace whence::comparison
