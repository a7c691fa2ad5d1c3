// The module's path in a node's or value's name, as PyTorch's TorchScript exporter, whence and annotate write it:
// "/encoder/layer.0/query/MatMul_1", "/encoder/layer.0/Add_output_0". The path ends where the operator begins. Tools
// that put a node in another's place keep that one's name and append to it:
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
  bool below = false;         // a module below it may be meant
  bool is_extended = false;   // a tool appended something behind the operator: the node stands for several
  bool has_operator = false;  // without one the path is all but the last segment, and a guess
};

// "_1" at the end of "attention_1"; empty when the segment ends in no number.
std::string_view number_ending(std::string_view segment);

// A module's second call is `attention_1`. Returns the paths that a path with such numbers may mean when some of them
// are numbers of calls, those first in which fewer are.
std::vector<std::string> first_calls(std::string_view path);

// Reads names of one file. Operators are those that ONNX defines or the file uses.
class ScopeReader {
 public:
  explicit ScopeReader(const onnx_file::OnnxSummary& model);  // must outlive it
  // `name` begins with '/'.
  ScopeInName read(std::string_view name) const;

 private:
  bool names_operator(std::string_view segment) const;

  std::unordered_set<std::string_view> used_;  // operators of the file
};

}  // namespace whence::match
