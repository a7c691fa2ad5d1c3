#include "annotator/match/op_class.h"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <string>
#include <unordered_map>

namespace whence::match {
namespace {

// Names by which tools call what ONNX calls otherwise. An entry here lets a fused or quantised node correspond to the
// plain one; which further nodes it took in follows from its neighbours, not from this table.
struct Alias {
  std::string_view name, plain;
};
constexpr Alias same_as[] = {
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
    {"GlobalAveragePool", "ReduceMean"},
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
    {"QLinearGlobalAveragePool", "ReduceMean"},
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
};

// The facts on an operator, under the name that op_class() goes by; the header explains each word.
enum Fact : std::uint16_t {
  transparent = 1,
  size_arithmetic = 2,
  integer_arithmetic = 4,
  commutative = 8,
  without_effect = 16,
  gate = 32,
  activation = 64,
  folded = 128,
  product = 256,
};

struct Row {
  std::string_view name;
  int facts;
};
constexpr Row table[] = {
    {"Abs", without_effect},
    {"Add", integer_arithmetic | commutative | without_effect | folded},
    {"And", commutative | without_effect},
    {"batch_norm", activation | folded},
    {"BatchNormalization", activation | folded},
    {"Cast", transparent | integer_arithmetic},
    {"CastLike", transparent},
    {"Ceil", integer_arithmetic},
    {"Clip", without_effect | activation},
    {"Concat", size_arithmetic | integer_arithmetic},
    {"Conv", product},
    {"ConvTranspose", product},
    {"DequantizeLinear", transparent},
    {"Div", integer_arithmetic | without_effect | folded},
    {"Dropout", transparent},
    {"DynamicQuantizeLinear", transparent},
    {"Elu", without_effect | activation},
    {"Equal", size_arithmetic | commutative},
    {"Erf", without_effect},
    {"Exp", without_effect},
    {"Expand", transparent},
    {"Flatten", transparent},
    {"Floor", integer_arithmetic},
    {"Gather", size_arithmetic | integer_arithmetic},
    {"Gelu", without_effect | activation},
    {"HardSigmoid", without_effect | gate | activation},
    {"HardSwish", without_effect | activation},
    {"Identity", transparent | integer_arithmetic},
    {"IsNaN", without_effect},
    {"LeakyRelu", without_effect | activation},
    {"Log", without_effect},
    {"MatMul", product},
    {"Max", integer_arithmetic | commutative | without_effect},
    {"Mean", commutative},
    {"Min", integer_arithmetic | commutative | without_effect},
    {"Mish", without_effect},
    {"Mod", integer_arithmetic},
    {"Mul", integer_arithmetic | commutative | without_effect | folded},
    {"Neg", integer_arithmetic | without_effect},
    {"Not", without_effect},
    {"Or", commutative | without_effect},
    {"Pad", without_effect},
    {"Pow", integer_arithmetic | without_effect},
    {"QuantizeLinear", transparent},
    {"Range", size_arithmetic},
    {"Reciprocal", without_effect},
    {"ReduceProd", integer_arithmetic},
    {"Relu", without_effect | activation},
    {"ReorderInput", transparent},
    {"ReorderOutput", transparent},
    {"Reshape", transparent | integer_arithmetic},
    {"Selu", without_effect},
    {"Shape", size_arithmetic},
    {"Sigmoid", without_effect | gate | activation},
    {"Size", size_arithmetic},
    {"Slice", integer_arithmetic | without_effect},
    {"Softplus", without_effect | gate},
    {"Softsign", without_effect},
    {"Sqrt", without_effect},
    {"Squeeze", transparent | integer_arithmetic},
    {"Sub", integer_arithmetic | without_effect | folded},
    {"Sum", commutative},
    {"Tanh", without_effect | gate | activation},
    {"Transpose", transparent},
    {"Unsqueeze", transparent | size_arithmetic | integer_arithmetic},
    {"Where", size_arithmetic | without_effect},
    {"Xor", commutative},
};

// The operators of the table have its first numbers, in its order, so that facts are looked up by number.
class Classes {
 public:
  Classes() {
    for (const Row& row : table) number_of(row.name);
  }

  std::uint16_t number_of(std::string_view name) {
    const std::lock_guard lock(mutex_);
    return numbers_.try_emplace(std::string(name), static_cast<std::uint16_t>(numbers_.size())).first->second;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, std::uint16_t> numbers_;
};

bool has(std::uint16_t op_class, Fact fact) {
  return op_class < std::size(table) && (table[op_class].facts & fact) != 0;
}

bool has(std::string_view op_type, Fact fact) {
  const auto row = std::ranges::find(table, op_type, &Row::name);
  return row != std::end(table) && (row->facts & fact) != 0;
}

}  // namespace

std::uint16_t op_class(std::string_view /*domain*/, std::string_view op_type) {
  static Classes classes;
  const auto alias = std::ranges::find(same_as, op_type, &Alias::name);
  return classes.number_of(alias != std::end(same_as) ? alias->plain : op_type);
}

bool is_transparent(std::string_view op_type) { return has(op_type, transparent); }
bool is_size_arithmetic(std::string_view op_type) { return has(op_type, size_arithmetic); }
bool is_integer_arithmetic(std::string_view op_type) { return has(op_type, integer_arithmetic); }
bool is_commutative(std::uint16_t op_class) { return has(op_class, commutative); }
bool may_be_without_effect(std::uint16_t op_class) { return has(op_class, without_effect); }
bool is_gate(std::uint16_t op_class) { return has(op_class, gate); }
bool is_activation(std::uint16_t op_class) { return has(op_class, activation); }
bool may_be_folded(std::uint16_t op_class) { return has(op_class, folded); }
bool is_product(std::uint16_t op_class) { return has(op_class, product); }

}  // namespace whence::match
