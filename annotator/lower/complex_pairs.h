// Declarations shared by the files of the complex-pairs pass. ONNX operators do not support complex tensors, so a
// complex tensor [*] becomes a real one [*, 2] of real and imaginary parts, which is also PyTorch's memory layout.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "annotator/lower/compose.h"

namespace whence::lower {

// Rewrites one operator that takes or returns pairs as operators on real tensors.
class PairSteps {
 public:
  PairSteps(Program& program, const Node& node, const std::unordered_set<ValueId>& pairs)
      : steps(program, node), program_(program), node_(node), pairs_(pairs) {}

  const Node& node() const { return node_; }
  const Argument& argument(std::string_view name) const { return steps.argument(name); }
  bool has(std::string_view name) const { return !argument(name).is_none(); }
  bool is_pair(const Argument& argument) const;
  bool result_is_pair() const { return pairs_.contains(node_.outputs.front()); }
  DType real_dtype() const;              // the dtype of the result, or of its parts if it is a pair
  std::vector<Dim> result_dims() const;  // with the last axis of 2 if the result is a pair
  std::vector<Dim> part_dims() const;    // without that axis

  // ---- parts and pairs
  Argument real(const Argument& pair) { return part(pair, 0); }
  Argument imag(const Argument& pair) { return part(pair, 1); }
  Argument pair(const Argument& real, const Argument& imag);
  Argument as_pair(const Argument& tensor);          // a real tensor gets an imaginary part of 0
  Argument in_result_dtype(const Argument& tensor);  // unchanged if the result is not a pair
  Argument unary(std::string_view target, const Argument& x);
  // Elementwise on real tensors; `b` may be a number. The result has the dtype of `a` and the broadcast dims.
  Argument binary(std::string_view target, const Argument& a, const Argument& b);
  Argument multiplied(const Argument& a, const Argument& b);  // product of two pairs
  Argument conjugate(const Argument& pair) { return pair_of_negated(pair); }

  [[noreturn]] void refuse(const std::string& why) const { steps.refuse(why, remedy); }
  static constexpr const char* remedy = "compute with real and imaginary parts (torch.view_as_real)";

  Compose steps;

 private:
  Argument part(const Argument& pair, std::int64_t index);
  Argument pair_of_negated(const Argument& pair) { return this->pair(real(pair), unary("aten::neg", imag(pair))); }

  Program& program_;
  const Node& node_;
  const std::unordered_set<ValueId>& pairs_;
};

// A rule returns the replacement of the operator's only result.
using PairRule = Argument (*)(PairSteps&);
using PairRules = std::unordered_map<std::string_view, PairRule>;

const PairRules& pair_arithmetic();  // by operator name; a rule covers every overload
const PairRules& pair_spectra();

}  // namespace whence::lower
