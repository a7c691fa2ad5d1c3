// Finds the module's path in a node's or value's name as PyTorch's TorchScript exporter, whence and annotate write it:
// "/encoder/layer.0/query/MatMul_1", "/encoder/layer.0/Add_output_0". The path ends before the operator. A tool that
// replaces a node keeps its name and appends to it:
// "/encoder/layer.0/query/MatMul/MatMulAddFusion",
// ".../Slice_5/GatherSliceToSplitFusion", ".../MatMul/MatMulScaleFusion//MatmulTransposeFusion/", "..._quant".
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "annotator/onnx_file/onnx_summary.h"

namespace whence::match {

struct ScopeInName {
  std::string_view path;      // "/encoder/layer.0"; empty for the root
  bool below = false;         // the name may mean a module inside
  bool is_extended = false;   // a tool appended to the operator: the node represents several
  bool has_operator = false;  // if false, the path is all but the last segment, a guess
};

// Returns "_1" for "attention_1"; an empty string if the segment does not end in a number.
std::string_view number_ending(std::string_view segment);

// Returns the paths that a path may mean if some of the numbers at the ends of its segments count calls: a module's
// second call is `attention_1`. Paths with fewer such numbers come first.
std::vector<std::string> first_calls(std::string_view path);

// Reads names of one file. A segment is an operator if ONNX defines it or the file uses it.
class ScopeReader {
 public:
  explicit ScopeReader(const onnx_file::OnnxSummary& model);  // `model` must outlive this object
  // `name` begins with '/'.
  ScopeInName read(std::string_view name) const;

 private:
  bool names_operator(std::string_view segment) const;

  std::unordered_set<std::string_view> used_;  // operators of the file
};

}  // namespace whence::match
