// Quantized: quantized tensors and the operators on them, recorded as operators of PyTorch's quantized_decomposed
// library:
//
//   y = quantized::linear(x, packed, scale, zero_point)
//     -> f = dequantize_per_tensor(x, ...); w = dequantize_per_channel(weight, ...);
//        y = quantize_per_tensor(aten::linear(f, w, bias), scale, zero_point, ...)
//
// In the Program a quantized tensor is the tensor of its integers; this class keeps their scale and zero point by
// value. An operator becomes its float form between dequantization and quantization, which is how PyTorch defines it.
// PyTorch's kernels may round differently, by at most one level.
#pragma once

#include "recorder/script/execution.h"
#include "recorder/script/objects.h"
#include "recorder/script/quantized_forms.h"

namespace whence::recorder::script {

class Quantized {
 public:
  Quantized(Recording& recording, Objects& objects) : recording_(recording), objects_(objects) {}

  // Records `operation` if it reads or makes quantized tensors. Returns false if it does neither, or has no float form.
  // Throws Error unsupported_feature if the scale of a result is not known.
  bool carry_out(const Step& step, const std::vector<Term>& arguments, const Node& operation);

  // Adds inputs for scale and zero point of a quantized tensor that the caller passes in, as PyTorch unpacks it.
  Term input(Term term, const std::string& name);
  // Returns a quantized result as its integers, scale and zero point.
  Term output(const Term& term);

 private:
  std::optional<Levels> levels_of(const at::Tensor& tensor);
  std::optional<Levels> levels_of_result(const Node& operation, const at::Tensor& tensor);
  std::optional<Levels> levels_of_arguments(const Node& operation, const Levels& levels) const;
  bool is_quantized_operation(const Step& step, const Node& operation) const;
  void quantize_results(const std::vector<Term*>& results, const Node& operation, bool relu);
  void dequantize_result(Term& result, const Origin& origin, const Argument& quantized);
  void set_levels(ValueId id, Levels levels, const Term& term);
  const Levels* levels_at(ValueId id) const;
  ValueId current_value(ValueId id) const;
  bool is_fixed(const Argument& argument) const;
  ValueId write(const Origin& origin, const std::string& target, const std::string& overload,
                std::vector<NamedArgument> arguments, Type type);
  ValueId convert_levels(const Origin& origin, const char* verb, ValueId id, const Levels& levels, DType dtype);
  Argument dequantized(const Origin& origin, const Argument& argument);
  std::pair<Argument, Argument> unpacked(const Origin& origin, const std::string& unpack, const Term& packed,
                                         const Argument& input);
  at::Tensor rounded_bias(const at::Tensor& bias, const at::Tensor& weight, const Argument& input) const;
  std::optional<Node> packed_layer(const Origin& origin, const std::string& name, const std::vector<Term>& arguments);
  std::optional<Node> float_operation(const Node& operation, const std::string& name,
                                      const std::vector<Term>& arguments);

  Recording& recording_;
  Objects& objects_;
  std::unordered_map<ValueId, Levels> levels_;            // levels of the values that are quantized tensors
  std::unordered_map<ValueId, at::Tensor> in_first_run_;  // quantized tensors in the first run
  std::unordered_map<ValueId, ValueId> rewritten_;        // by quantized tensor, its value after an in-place write
  std::unordered_map<const c10::ivalue::Object*, ValueId> packed_weights_;
};

}  // namespace whence::recorder::script
