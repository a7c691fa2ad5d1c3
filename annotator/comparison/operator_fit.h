// Which operators a node may have: those of its operations, and others by which exporters and tools write them. A Tanh
// is no part of a sum.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "annotator/match/reference.h"
#include "annotator/onnx_file/onnx_summary.h"

namespace whence::comparison {

// Returns a remark for an operator of a domain other than those of ONNX and ONNX Runtime; else "".
std::string unknown_domain(const onnx_file::OnnxNode& node);
// Returns why a node cannot be a part of these operations; "" if one of them has its operator, or one that consists of
// it or is a part of it.
std::string misfit(const onnx_file::OnnxNode& node, const std::vector<std::int32_t>& operations,
                   const match::Reference& reference);

}  // namespace whence::comparison
