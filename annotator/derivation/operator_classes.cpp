#include "annotator/derivation/operator_classes.h"

#include <set>

namespace whence::derivation {

bool multiplies(std::string_view op_type) {
  static const std::set<std::string_view> known = {"Conv",        "FusedMatMul",   "Gemm",         "MatMul",
                                                   "MatMulNBits", "MatMulInteger", "QLinearMatMul"};
  return known.contains(op_type);
}

std::optional<std::size_t> bias_slot(std::string_view op_type) {
  if (op_type == "MatMulNBits") return 5;
  static const std::set<std::string_view> products = {"Conv", "ConvTranspose", "FusedConv", "FusedGemm", "Gemm"};
  return products.contains(op_type) ? std::optional<std::size_t>(2) : std::nullopt;
}

bool is_movement(std::string_view op_type) {
  static const std::set<std::string_view> movements = {
      "Cast",      "CastLike",       "Constant",    "DequantizeLinear", "DynamicQuantizeLinear",
      "Expand",    "Flatten",        "Identity",    "QuantizeLinear",   "Reshape",
      "Squeeze",   "Transpose",      "Split",       "ReorderInput",     "ReorderOutput",
      "Unsqueeze", "MemcpyFromHost", "MemcpyToHost"};
  return movements.contains(op_type);
}

bool is_arithmetic(std::string_view op_type) {
  static const std::set<std::string_view> others = {"And",
                                                    "ArgMax",
                                                    "ArgMin",
                                                    "Compress",
                                                    "Concat",
                                                    "ConstantOfShape",
                                                    "Equal",
                                                    "Gather",
                                                    "GatherBlockQuantized",
                                                    "GatherElements",
                                                    "GatherND",
                                                    "Greater",
                                                    "GreaterOrEqual",
                                                    "If",
                                                    "IsInf",
                                                    "IsNaN",
                                                    "Less",
                                                    "LessOrEqual",
                                                    "Loop",
                                                    "NonZero",
                                                    "Not",
                                                    "OneHot",
                                                    "Or",
                                                    "Pad",
                                                    "Range",
                                                    "Scan",
                                                    "ScatterElements",
                                                    "ScatterND",
                                                    "Shape",
                                                    "Size",
                                                    "Slice",
                                                    "Tile",
                                                    "TopK",
                                                    "Trilu",
                                                    "Where",
                                                    "Xor"};
  return !is_movement(op_type) && !others.contains(op_type);
}

}  // namespace whence::derivation
