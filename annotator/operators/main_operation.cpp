#include "annotator/operators/main_operation.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace whence::operators {

namespace {

// What an operation computes, as far as fused operators are named after it.
enum class Kind : std::uint8_t { other, attention, softmax, product, norm, norm_step };

constexpr std::array pytorch_products = {"linear", "mm", "bmm", "addmm",    "baddbmm", "addbmm",
                                         "matmul", "mv", "dot", "bilinear", "einsum"};
constexpr std::array pytorch_norm_steps = {"pow", "square", "mean", "var", "var_mean", "sqrt", "rsqrt", "reciprocal"};
constexpr std::array onnx_norm_steps = {"Pow", "ReduceMean", "Sqrt", "Rsqrt", "Reciprocal"};

bool contains(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

bool is_one_of(std::string_view name, const auto& names) { return std::ranges::find(names, name) != names.end(); }

Kind kind_in_pytorch(std::string_view name) {
  if (contains(name, "attention")) return Kind::attention;
  if (contains(name, "softmax")) return Kind::softmax;
  if (contains(name, "norm") && !contains(name, "normal")) return Kind::norm;  // normal() draws random numbers
  if (is_one_of(name, pytorch_products)) return Kind::product;
  if (contains(name, "conv") && !contains(name, "convert")) return Kind::product;
  return is_one_of(name, pytorch_norm_steps) ? Kind::norm_step : Kind::other;
}

// Decides by the name, because runtimes have more operators than the table of operators.
Kind kind_in_onnx(std::string_view op_type) {
  if (contains(op_type, "Attention") || op_type == "SDPA") return Kind::attention;
  if (contains(op_type, "Softmax")) return Kind::softmax;
  if (contains(op_type, "Norm") && !op_type.starts_with("Random")) return Kind::norm;
  const bool is_convolution = contains(op_type, "Conv") && !contains(op_type, "Convert");
  if (is_convolution || contains(op_type, "MatMul") || contains(op_type, "Gemm") || op_type == "Einsum") {
    return Kind::product;
  }
  return is_one_of(op_type, onnx_norm_steps) ? Kind::norm_step : Kind::other;
}

Kind kind_of(std::string_view operation) {
  const std::size_t name = operation.rfind("::");
  return name == operation.npos ? kind_in_onnx(operation) : kind_in_pytorch(operation.substr(name + 2));
}

std::vector<std::size_t> positions_of(Kind kind, const std::vector<std::string_view>& parts) {
  std::vector<std::size_t> positions;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (kind_of(parts[i]) == kind) positions.push_back(i);
  }
  return positions;
}

}  // namespace

std::vector<std::size_t> main_operations(std::string_view op_type, const std::vector<std::string_view>& parts) {
  const Kind kind = kind_of(op_type);
  std::vector<std::size_t> positions;
  if (kind != Kind::other) positions = positions_of(kind, parts);
  // Exporters and tools write attention and normalization as several operations.
  if (positions.empty() && kind == Kind::attention) positions = positions_of(Kind::softmax, parts);
  if (positions.empty() && kind == Kind::norm) positions = positions_of(Kind::norm_step, parts);
  if (positions.empty()) positions = {parts.size() - 1};
  return positions;
}

}  // namespace whence::operators
