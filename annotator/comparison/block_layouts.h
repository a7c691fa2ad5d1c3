// BlockLayouts: which values of a file are in the blocks of channels of ONNX Runtime's convolutions. Only its own
// operators, and those that compute each element alone, read such a value as what it stands for.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "annotator/derivation/derive.h"
#include "annotator/derivation/file_tensors.h"
#include "annotator/onnx_file/onnx_summary.h"

namespace whence::comparison {

class BlockLayouts {
 public:
  // All must outlive this object.
  BlockLayouts(const std::vector<const onnx_file::OnnxNode*>& nodes, const onnx_file::OnnxGraph& graph,
               const derivation::FileTensors& tensors, const std::vector<derivation::Derivation>& derivations);

  // Returns what is wrong about the layout of a node's operands or result; "" if nothing.
  std::string difference(const onnx_file::OnnxNode& node) const;

 private:
  // Returns whether an operator reads its first operand in blocks; nullopt if it reads either.
  std::optional<bool> reads_blocks(const onnx_file::OnnxNode& node) const;
  bool is_constant(std::string_view value) const;

  const onnx_file::OnnxGraph& graph_;
  const derivation::FileTensors& tensors_;
  const std::vector<derivation::Derivation>& derivations_;
  std::set<std::string_view> blocked_;
};

}  // namespace whence::comparison
