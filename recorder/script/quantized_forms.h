// The ATen operators on floats that are equivalent to quantized operators, and the levels of quantized tensors.
#pragma once

#include <optional>
#include <string_view>

#include "recorder/program/term.h"

namespace whence::recorder::script {

inline constexpr std::string_view quantized_space = "quantized::";

// The ATen operator on floats that is equivalent to a quantized operator, and the names of its arguments.
struct FloatForm {
  std::string_view target, overload;
  std::vector<std::pair<std::string_view, std::string_view>> names;  // quantized operator's, ATen's
  std::vector<NamedArgument> constants = {};
};

// Returns the form of `quantized::name`; null if it has none.
const FloatForm* float_form(std::string_view name);

// True for operators whose kernels choose scale and zero point independently of the input's.
bool has_own_levels(const std::string& target);

// Scale and zero point, per tensor or per channel of `axis`: the integer q represents (q - zero_point) * scale.
struct Levels {
  Argument scale, zero_point;  // numbers or values
  std::int64_t low = 0, high = 0;
  std::optional<std::int64_t> axis;
  DType dtype = DType::undefined;
};

bool is_per_tensor(const at::Tensor& tensor);
bool is_quantized(const std::optional<c10::IValue>& value);

// Returns dtype, low and high of a quantized tensor; empty for dtypes that a Program lacks (two and four bits).
std::optional<Levels> integer_range(const at::Tensor& tensor);

// Calls PyTorch's operator `name` on a packed weight and returns the results, such as its tensors or its stride.
std::vector<c10::IValue> call_on_packed(const std::string& name, const c10::intrusive_ptr<c10::ivalue::Object>& packed);

}  // namespace whence::recorder::script
