#include "annotator/match/op_class.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

namespace whence::match {
namespace {

// Names by which tools call what ONNX calls otherwise. An entry here lets a fused or quantised node correspond to the
// plain one; which further nodes it took in follows from its neighbours, not from this table.
constexpr std::array<std::pair<std::string_view, std::string_view>, 45> same_as = {{
    {"Gemm", "MatMul"},
    {"FusedMatMul", "MatMul"},
    {"FusedGemm", "MatMul"},
    {"TransposeMatMul", "MatMul"},
    {"MatMulInteger", "MatMul"},
    {"MatMulIntegerToFloat", "MatMul"},
    {"DynamicQuantizeMatMul", "MatMul"},
    {"QLinearMatMul", "MatMul"},
    {"QGemm", "MatMul"},
    {"MatMulNBits", "MatMul"},
    {"MatMulBnb4", "MatMul"},
    {"GemmFloat8", "MatMul"},
    {"FusedMatMulActivation", "MatMul"},
    {"FusedConv", "Conv"},
    {"ConvInteger", "Conv"},
    {"QLinearConv", "Conv"},
    {"NhwcConv", "Conv"},
    {"NhwcFusedConv", "Conv"},
    {"QLinearAdd", "Add"},
    {"QLinearMul", "Mul"},
    {"QLinearSigmoid", "Sigmoid"},
    {"QLinearLeakyRelu", "LeakyRelu"},
    {"QLinearSoftmax", "Softmax"},
    {"QLinearConcat", "Concat"},
    {"QLinearAveragePool", "AveragePool"},
    {"QLinearGlobalAveragePool", "GlobalAveragePool"},
    {"QLinearReduceMean", "ReduceMean"},
    {"QLinearWhere", "Where"},
    {"NhwcMaxPool", "MaxPool"},
    {"DynamicQuantizeLSTM", "LSTM"},
    {"FastGelu", "Gelu"},
    {"BiasGelu", "Gelu"},
    {"QuickGelu", "Gelu"},
    {"SkipLayerNormalization", "LayerNormalization"},
    {"EmbedLayerNormalization", "LayerNormalization"},
    {"SimplifiedLayerNormalization", "RMSNormalization"},
    {"SkipSimplifiedLayerNormalization", "RMSNormalization"},
    {"BiasSplitGelu", "Gelu"},
    {"MultiHeadAttention", "Attention"},
    {"PackedAttention", "Attention"},
    {"PackedMultiHeadAttention", "Attention"},
    {"GroupQueryAttention", "Attention"},
    {"QAttention", "Attention"},
    {"BiasSoftmax", "Softmax"},
    {"QEmbedLayerNormalization", "LayerNormalization"},
}};

constexpr std::array<std::string_view, 15> transparent = {"Identity",
                                                          "Cast",
                                                          "CastLike",
                                                          "Reshape",
                                                          "Transpose",
                                                          "Squeeze",
                                                          "Unsqueeze",
                                                          "Flatten",
                                                          "Expand",
                                                          "Dropout",
                                                          "QuantizeLinear",
                                                          "DequantizeLinear",
                                                          "DynamicQuantizeLinear",
                                                          "ReorderInput",
                                                          "ReorderOutput"};

struct Classes {
  std::mutex mutex;
  std::unordered_map<std::string, std::uint16_t> numbers;
};

std::uint16_t number_of(std::string_view name) {
  static Classes classes;
  const std::lock_guard lock(classes.mutex);
  return classes.numbers.try_emplace(std::string(name), static_cast<std::uint16_t>(classes.numbers.size()))
      .first->second;
}

// The numbers of some classes, looked up once.
template <std::size_t size>
std::array<std::uint16_t, size> numbers_of(const std::array<std::string_view, size>& names) {
  std::array<std::uint16_t, size> numbers{};
  std::transform(names.begin(), names.end(), numbers.begin(), number_of);
  return numbers;
}

template <class Numbers>
bool is_among(const Numbers& numbers, std::uint16_t wanted) {
  return std::find(numbers.begin(), numbers.end(), wanted) != numbers.end();
}

}  // namespace

std::uint16_t op_class(std::string_view /*domain*/, std::string_view op_type) {
  for (const auto& [other, plain] : same_as) {
    if (other == op_type) return number_of(plain);
  }
  return number_of(op_type);
}

bool is_transparent(std::string_view op_type) {
  for (const std::string_view name : transparent) {
    if (name == op_type) return true;
  }
  return false;
}

bool is_size_arithmetic(std::string_view op_type) {
  static constexpr std::array<std::string_view, 8> names = {"Concat", "Equal", "Gather",    "Range",
                                                            "Shape",  "Size",  "Unsqueeze", "Where"};
  return std::ranges::find(names, op_type) != names.end();
}

bool is_integer_arithmetic(std::string_view op_type) {
  static constexpr std::array<std::string_view, 19> names = {
      "Add", "Cast", "Ceil", "Concat", "Div",        "Floor",   "Gather", "Identity", "Max",      "Min",
      "Mod", "Mul",  "Neg",  "Pow",    "ReduceProd", "Reshape", "Slice",  "Squeeze",  "Unsqueeze"};
  return op_type == "Sub" || std::ranges::find(names, op_type) != names.end();
}

bool is_commutative(std::uint16_t op_class) {
  static const auto numbers = numbers_of(
      std::array<std::string_view, 10>{"Add", "Mul", "Max", "Min", "And", "Or", "Xor", "Equal", "Sum", "Mean"});
  return is_among(numbers, op_class);
}

bool may_be_without_effect(std::uint16_t op_class) {
  static const auto numbers = numbers_of(std::array<std::string_view, 34>{
      "Add",      "Sub",      "Mul",         "Div",       "Pow",     "Neg",  "Abs",       "Sqrt",  "Reciprocal",
      "Exp",      "Log",      "Erf",         "Tanh",      "Sigmoid", "Relu", "LeakyRelu", "Elu",   "Selu",
      "Softplus", "Softsign", "HardSigmoid", "HardSwish", "Clip",    "Min",  "Max",       "Where", "Not",
      "And",      "Or",       "IsNaN",       "Gelu",      "Mish",    "Pad",  "Slice"});
  return is_among(numbers, op_class);
}

bool is_gate(std::uint16_t op_class) {
  static const auto numbers = numbers_of(std::array<std::string_view, 4>{"Sigmoid", "HardSigmoid", "Tanh", "Softplus"});
  return is_among(numbers, op_class);
}

bool is_activation(std::uint16_t op_class) {
  static const auto numbers =
      numbers_of(std::array<std::string_view, 11>{"Relu", "LeakyRelu", "Clip", "Sigmoid", "Tanh", "HardSigmoid",
                                                  "HardSwish", "Elu", "Gelu", "BatchNormalization", "batch_norm"});
  return is_among(numbers, op_class);
}

bool may_be_folded(std::uint16_t op_class) {
  static const auto numbers =
      numbers_of(std::array<std::string_view, 6>{"BatchNormalization", "batch_norm", "Mul", "Add", "Sub", "Div"});
  return is_among(numbers, op_class);
}

bool is_product(std::uint16_t op_class) {
  static const auto numbers = numbers_of(std::array<std::string_view, 3>{"MatMul", "Conv", "ConvTranspose"});
  return is_among(numbers, op_class);
}

}  // namespace whence::match
