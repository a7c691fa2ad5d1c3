// The integers that nodes state as axes, indices and limits: those of a file are those of the program at the same
// place.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "annotator/comparison/operation_forms.h"
#include "annotator/derivation/contents.h"
#include "annotator/derivation/file_tensors.h"
#include "annotator/onnx_file/onnx_summary.h"

namespace whence::comparison {

// Returns which constant integers of a node differ from those that the same operator has in all forms of its
// operations;
// "" if none, or if the program computes them.
std::string other_integers(const onnx_file::OnnxNode& node, const std::vector<std::int32_t>& operations,
                           const OperationForms& forms, const derivation::FileTensors& tensors,
                           derivation::Contents& contents);

}  // namespace whence::comparison
