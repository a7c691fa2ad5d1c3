#include "annotator/view/operation_count.h"

#include <algorithm>
#include <limits>
#include <string>
#include <unordered_map>

#include "annotator/onnx_file/onnx_fields.h"
#include "annotator/onnx_file/wire_in.h"

namespace whence::view {

using onnx_file::OnnxNode;
namespace wire = onnx_file::wire;
using functions::ValueShapes;

namespace {

enum class Formula : std::uint8_t {
  free,
  each_output,
  each_input,
  softmax,
  normalization,
  batch_normalization,
  product,
  gemm,
  convolution,
  transposed_convolution,
  pool,
};

void add(std::unordered_map<std::string_view, Formula>& to, Formula formula,
         std::initializer_list<std::string_view> operators) {
  for (const std::string_view name : operators) to.emplace(name, formula);
}

std::unordered_map<std::string_view, Formula> make_formulas() {
  std::unordered_map<std::string_view, Formula> all;
  add(all, Formula::free, {"Reshape",  "Transpose",       "Slice",    "Gather",          "GatherElements",
                           "GatherND", "Concat",          "Cast",     "CastLike",        "Shape",
                           "Size",     "Constant",        "Identity", "Unsqueeze",       "Squeeze",
                           "Expand",   "Split",           "Pad",      "Flatten",         "Tile",
                           "Range",    "ConstantOfShape", "Where",    "ScatterElements", "ScatterND",
                           "Dropout",  "EyeLike",         "Trilu",    "DepthToSpace",    "SpaceToDepth",
                           "OneHot",   "ReverseSequence", "NonZero",  "Compress"});
  add(all, Formula::each_output,
      {"Add",
       "Sub",
       "Mul",
       "Div",
       "Pow",
       "Mod",
       "Neg",
       "Abs",
       "Sqrt",
       "Exp",
       "Log",
       "Erf",
       "Relu",
       "LeakyRelu",
       "PRelu",
       "Elu",
       "Selu",
       "Celu",
       "Gelu",
       "Sigmoid",
       "Tanh",
       "Sin",
       "Cos",
       "Tan",
       "Asin",
       "Acos",
       "Atan",
       "Sinh",
       "Cosh",
       "Floor",
       "Ceil",
       "Round",
       "Sign",
       "Reciprocal",
       "Clip",
       "Min",
       "Max",
       "Sum",
       "Mean",
       "Equal",
       "Less",
       "Greater",
       "Not",
       "And",
       "Or",
       "Xor",
       "HardSigmoid",
       "HardSwish",
       "Mish",
       "Softplus",
       "Softsign",
       "LessOrEqual",
       "GreaterOrEqual",
       "ThresholdedRelu",
       "Swish",
       "IsNaN",
       "IsInf",
       "FastGelu",
       "BiasGelu",
       "QuickGelu",
       "BitwiseAnd",
       "BitwiseOr",
       "BitwiseXor",
       "BitwiseNot",
       "QuantizeLinear",
       "DequantizeLinear"});
  add(all, Formula::each_input,
      {"ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare",
       "ReduceLogSum", "ReduceLogSumExp", "ArgMax", "ArgMin", "CumSum", "GlobalAveragePool", "GlobalMaxPool"});
  add(all, Formula::softmax, {"Softmax", "LogSoftmax", "Hardmax"});
  add(all, Formula::normalization,
      {"LayerNormalization", "InstanceNormalization", "GroupNormalization", "RMSNormalization",
       "SimplifiedLayerNormalization"});
  add(all, Formula::batch_normalization, {"BatchNormalization"});
  add(all, Formula::product, {"MatMul", "MatMulInteger", "QLinearMatMul", "MatMulIntegerToFloat"});
  add(all, Formula::gemm, {"Gemm"});
  add(all, Formula::convolution, {"Conv", "ConvInteger", "QLinearConv", "FusedConv"});
  add(all, Formula::transposed_convolution, {"ConvTranspose"});
  add(all, Formula::pool, {"MaxPool", "AveragePool", "LpPool"});
  return all;
}

// Sizes that a file states may be any numbers: products that leave the range are unknown.
using Count = std::optional<std::int64_t>;

Count times(Count a, Count b) {
  std::int64_t product = 0;
  if (!a || !b || *a < 0 || *b < 0 || __builtin_mul_overflow(*a, *b, &product)) return std::nullopt;
  return product;
}

Count over(Count a, Count b) { return a && b && *b > 0 ? Count(*a / *b) : std::nullopt; }

// Gives a node's formula the sizes of its inputs and outputs.
class Sizes {
 public:
  Sizes(const OnnxNode& node, const ValueShapes& shapes) : node_(node), shapes_(shapes) {}

  const std::vector<std::int64_t>* input(std::size_t i) const { return of(node_.inputs, i); }
  Count inputs(std::size_t i) const { return elements(of(node_.inputs, i)); }
  Count outputs() const { return elements(of(node_.outputs, 0)); }
  Count first_output_size() const {
    const auto* sizes = of(node_.outputs, 0);
    return sizes != nullptr && !sizes->empty() ? Count(sizes->front()) : std::nullopt;
  }

 private:
  const std::vector<std::int64_t>* of(const std::vector<std::string_view>& names, std::size_t i) const {
    if (i >= names.size()) return nullptr;
    const auto found = shapes_.find(std::string(names[i]));
    return found != shapes_.end() && found->second->sizes ? &*found->second->sizes : nullptr;
  }

  static Count elements(const std::vector<std::int64_t>* sizes) {
    if (sizes == nullptr) return std::nullopt;
    Count count = 1;
    for (const std::int64_t size : *sizes) count = times(count, size);
    return count;
  }

  const OnnxNode& node_;
  const ValueShapes& shapes_;
};

// The product of the attribute kernel_shape, [kH, kW].
Count kernel_of(const OnnxNode& node) {
  const Place place;
  for (const onnx_file::OnnxAttribute& attribute : node.attributes) {
    if (attribute.name != "kernel_shape") continue;
    Count count = 1;
    for (const wire::Field& field : wire::Fields(attribute.message, place)) {
      if (field.number != onnx_file::proto::attribute::ints) continue;
      for_each_varint(field, place, [&](auto size) { count = times(count, static_cast<std::int64_t>(size)); });
    }
    return count;
  }
  return std::nullopt;
}

// Weights [M, C/group, k...]: QLinearConv has them behind its input's scale and zero point.
Count channels_and_kernel(const OnnxNode& node, const Sizes& sizes) {
  const std::size_t at = node.op_type == "QLinearConv" ? 3 : 1;
  const auto* weight = sizes.input(at);
  return weight != nullptr && !weight->empty() ? over(sizes.inputs(at), weight->front()) : std::nullopt;
}

Count inner_size(const Sizes& sizes) {
  const auto* left = sizes.input(0);
  return left != nullptr && !left->empty() ? Count(left->back()) : std::nullopt;
}

Count apply(Formula formula, const OnnxNode& node, const Sizes& sizes) {
  switch (formula) {
    case Formula::free:
      return 0;
    case Formula::each_output:
      return sizes.outputs();
    case Formula::each_input:
      return sizes.inputs(0);
    case Formula::softmax:
      return times(5, sizes.outputs());
    case Formula::normalization:
      return times(7, sizes.outputs());
    case Formula::batch_normalization:
      return times(2, sizes.outputs());
    case Formula::product:
      return times(2, times(sizes.outputs(), inner_size(sizes)));
    case Formula::gemm:  // [M, K] or its transpose: K is what M leaves
      return times(2, times(sizes.outputs(), over(sizes.inputs(0), sizes.first_output_size())));
    case Formula::convolution:
      return times(2, times(sizes.outputs(), channels_and_kernel(node, sizes)));
    case Formula::transposed_convolution:
      return times(2, times(sizes.inputs(0), channels_and_kernel(node, sizes)));
    case Formula::pool:
      return times(sizes.outputs(), kernel_of(node));
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::int64_t> count_operations(const OnnxNode& node, const ValueShapes& shapes) {
  static const std::unordered_map<std::string_view, Formula> formulas = make_formulas();
  const bool known_domain = node.domain.empty() || node.domain == "ai.onnx" || node.domain == "com.microsoft";
  const auto formula = formulas.find(node.op_type);
  if (!known_domain || formula == formulas.end() || !node.subgraphs.empty()) return std::nullopt;
  return apply(formula->second, node, Sizes(node, shapes));
}

}  // namespace whence::view
