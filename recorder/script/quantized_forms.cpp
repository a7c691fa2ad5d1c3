#include "recorder/script/quantized_forms.h"

#include <limits>
#include <map>

namespace whence::recorder::script {

const FloatForm* float_form(std::string_view name) {
  static const std::map<std::string_view, FloatForm> forms = {
      {"add", {"aten::add", "Tensor", {{"qa", "self"}, {"qb", "other"}}}},
      {"mul", {"aten::mul", "Tensor", {{"qa", "self"}, {"qb", "other"}}}},
      {"cat", {"aten::cat", "", {{"qx", "tensors"}, {"dim", "dim"}}}},
      {"hardswish", {"aten::hardswish", "", {{"input", "self"}}}},
      {"sigmoid", {"aten::sigmoid", "", {{"qx", "self"}}}},
      {"leaky_relu", {"aten::leaky_relu", "", {{"qx", "self"}, {"negative_slope", "negative_slope"}}}},
      {"elu",
       {"aten::elu", "", {{"self", "self"}, {"alpha", "alpha"}, {"scale", "scale"}, {"input_scale", "input_scale"}}}},
      {"softmax", {"aten::softmax", "int", {{"qx", "self"}, {"dim", "dim"}}}},
      {"prelu", {"aten::prelu", "", {{"qx", "self"}, {"weight", "weight"}}}},
      {"layer_norm",
       {"aten::layer_norm",
        "",
        {{"input", "input"},
         {"normalized_shape", "normalized_shape"},
         {"weight", "weight"},
         {"bias", "bias"},
         {"eps", "eps"}}}},
      {"group_norm",
       {"aten::group_norm",
        "",
        {{"input", "input"}, {"num_groups", "num_groups"}, {"weight", "weight"}, {"bias", "bias"}, {"eps", "eps"}}}},
      {"instance_norm",
       {"aten::instance_norm",
        "",
        {{"input", "input"}, {"weight", "weight"}, {"bias", "bias"}, {"eps", "eps"}},
        {{"running_mean", {None{}}},
         {"running_var", {None{}}},
         {"use_input_stats", {true}},
         {"momentum", {0.1}},
         {"cudnn_enabled", {false}}}}},
      {"batch_norm",
       {"aten::batch_norm",
        "",
        {{"qx", "input"},
         {"weight", "weight"},
         {"bias", "bias"},
         {"mean", "running_mean"},
         {"var", "running_var"},
         {"eps", "eps"}},
        {{"training", {false}}, {"momentum", {0.1}}, {"cudnn_enabled", {false}}}}},
  };
  if (name == "batch_norm1d" || name == "batch_norm2d" || name == "batch_norm3d") name = "batch_norm";
  const auto found = forms.find(name);
  return found == forms.end() ? nullptr : &found->second;
}

bool has_own_levels(const std::string& target) {
  static const std::unordered_set<std::string> names = {"aten::sigmoid",     "aten::tanh",     "aten::hardsigmoid",
                                                        "aten::softmax",     "aten::sigmoid_", "aten::tanh_",
                                                        "aten::hardsigmoid_"};
  return names.contains(target);
}

bool is_quantized(const std::optional<c10::IValue>& value) {
  return value && value->isTensor() && value->toTensor().defined() && value->toTensor().is_quantized();
}

bool is_per_tensor(const at::Tensor& tensor) {
  return tensor.qscheme() == at::kPerTensorAffine || tensor.qscheme() == at::kPerTensorSymmetric;
}

std::optional<Levels> integer_range(const at::Tensor& tensor) {
  const auto range = [](DType dtype, std::int64_t low, std::int64_t high) {
    Levels levels;
    levels.dtype = dtype, levels.low = low, levels.high = high;
    return levels;
  };
  using Int32 = std::numeric_limits<std::int32_t>;
  switch (tensor.scalar_type()) {
    case at::kQUInt8:
      return range(DType::uint8, 0, 255);
    case at::kQInt8:
      return range(DType::int8, -128, 127);
    case at::kQInt32:
      return range(DType::int32, Int32::min(), Int32::max());
    default:
      return std::nullopt;
  }
}

std::vector<c10::IValue> call_on_packed(const std::string& name,
                                        const c10::intrusive_ptr<c10::ivalue::Object>& packed) {
  torch::jit::Stack stack{c10::IValue(packed)};
  c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), "").callBoxed(stack);
  return stack;
}

}  // namespace whence::recorder::script
