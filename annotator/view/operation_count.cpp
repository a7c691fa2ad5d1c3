#include "annotator/view/operation_count.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "annotator/onnx_file/onnx_fields.h"
#include "annotator/onnx_file/wire_in.h"
#include "annotator/operators/onnx_operators.h"

namespace whence::view {

using onnx_file::OnnxNode;
namespace wire = onnx_file::wire;
using functions::ValueShapes;
using operators::Flops;

namespace {

// A file may state any sizes, so a product or sum that overflows is unknown.
using Count = std::optional<std::int64_t>;

Count times(Count a, Count b) {
  std::int64_t product = 0;
  if (!a || !b || *a < 0 || *b < 0 || __builtin_mul_overflow(*a, *b, &product)) return std::nullopt;
  return product;
}

Count plus(Count a, Count b) {
  std::int64_t sum = 0;
  if (!a || !b || __builtin_add_overflow(*a, *b, &sum)) return std::nullopt;
  return sum;
}

Count over(Count a, Count b) { return a && b && *b > 0 ? Count(*a / *b) : std::nullopt; }

// The sizes of a node's inputs and outputs.
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
    const auto found = shapes_.find(names[i]);
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

// Returns the product of the attribute kernel_shape, [kH, kW].
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

bool is_set(const OnnxNode& node, std::string_view attribute) {
  const Place place;
  for (const onnx_file::OnnxAttribute& each : node.attributes) {
    if (each.name != attribute) continue;
    for (const wire::Field& field : wire::Fields(each.message, place)) {
      if (field.is_varint(onnx_file::proto::attribute::i)) return field.value != 0;
    }
  }
  return false;
}

// Returns C/group * k... of weights [M, C/group, k...]. QLinearConv has them after its input's scale and zero point.
Count channels_and_kernel(const OnnxNode& node, const Sizes& sizes) {
  const std::size_t at = node.op_type == "QLinearConv" ? 3 : 1;
  const auto* weight = sizes.input(at);
  return weight != nullptr && !weight->empty() ? over(sizes.inputs(at), weight->front()) : std::nullopt;
}

// Returns K of [.., M, K] times [.., K, N]. FusedMatMul may read its left operand transposed: [.., K, M], and with
// transBatchA [K, .., M] or [M, .., K].
Count inner_size(const OnnxNode& node, const Sizes& sizes) {
  const auto* left = sizes.input(0);
  if (left == nullptr || left->empty()) return std::nullopt;
  if (left->size() == 1 || !is_set(node, "transA")) return left->back();
  return is_set(node, "transBatchA") ? left->front() : left->end()[-2];
}

// Returns the text of an attribute, empty if the node omits it.
std::string_view text_of(const OnnxNode& node, std::string_view attribute) {
  const Place place;
  for (const onnx_file::OnnxAttribute& each : node.attributes) {
    if (each.name != attribute) continue;
    for (const wire::Field& field : wire::Fields(each.message, place)) {
      if (field.is_bytes(onnx_file::proto::attribute::s)) return field.bytes;
    }
  }
  return {};
}

// Counts like PyTorch's product of two operands: an axis that is only in one operand and not in the result is summed
// before the product. Without a summed axis in both operands, the product is elementwise.
Count einsum(const OnnxNode& node, const Sizes& sizes) {
  std::string equation;
  for (const char c : text_of(node, "equation")) equation += c == ' ' ? "" : std::string(1, c);
  const std::size_t comma = equation.find(','), arrow = equation.find("->");
  const bool plain = equation.find_first_of(".") == std::string::npos;
  if (node.inputs.size() != 2 || comma == std::string::npos || arrow == std::string::npos || !plain)
    return std::nullopt;
  const std::string operands[] = {equation.substr(0, comma), equation.substr(comma + 1, arrow - comma - 1)};
  const std::string result = equation.substr(arrow + 2);
  const auto has = [](const std::string& axes, char axis) { return axes.find(axis) != std::string::npos; };
  Count product = 1;
  std::string counted;
  bool summed = false;
  for (std::size_t i = 0; i < 2; ++i) {
    const auto* dims = sizes.input(i);
    if (dims == nullptr || dims->size() != operands[i].size()) return std::nullopt;
    for (std::size_t axis = 0; axis < dims->size(); ++axis) {
      const char label = operands[i][axis];
      const bool in_both = has(operands[1 - i], label), kept = has(result, label);
      summed |= in_both && !kept;
      if (has(counted, label) || !(in_both || kept)) continue;
      counted += label;
      product = times(product, (*dims)[axis]);
    }
  }
  return summed ? times(2, product) : sizes.outputs();
}

// Counts both products of an attention: queries [.., L, E] with keys [.., S, E], and the weights with values [.., S,
// V]. The axes of heads and of a head's elements may be merged. Cached keys (`past`) precede the new keys.
Count attention(const OnnxNode& node, const Sizes& sizes) {
  const bool of_runtime = !node.domain.empty() && node.domain != "ai.onnx";
  if (of_runtime && node.op_type != "MultiHeadAttention") return std::nullopt;  // may pack queries, keys and values
  const auto length = [&](std::size_t input) -> Count {
    const auto* dims = sizes.input(input);
    return dims != nullptr && (dims->size() == 3 || dims->size() == 4) ? Count(dims->end()[-2]) : std::nullopt;
  };
  const std::size_t past = of_runtime ? 6 : 4;
  const bool has_past = past < node.inputs.size() && !node.inputs[past].empty();
  const Count keys = has_past ? plus(length(1), length(past)) : length(1);
  return times(2, times(keys, plus(sizes.inputs(0), sizes.outputs())));
}

// Counts the products of X [.., I] with W [directions, gates * H, I], and of the states with R [directions, gates * H,
// H].
Count recurrent(const Sizes& sizes) {
  const auto* x = sizes.input(0);
  if (x == nullptr || x->empty()) return std::nullopt;
  return times(2, times(over(sizes.inputs(0), x->back()), plus(sizes.inputs(1), sizes.inputs(2))));
}

Count apply(Flops formula, const OnnxNode& node, const Sizes& sizes) {
  switch (formula) {
    case Flops::uncounted:
      return std::nullopt;
    case Flops::zero:
      return 0;
    case Flops::per_output:
      return sizes.outputs();
    case Flops::per_input:
      return sizes.inputs(0);
    case Flops::softmax:
      return times(5, sizes.outputs());
    case Flops::normalization:
      return times(7, sizes.outputs());
    case Flops::batch_normalization:
      return times(2, sizes.outputs());
    case Flops::matrix_product:
      return times(2, times(sizes.outputs(), inner_size(node, sizes)));
    case Flops::gemm:  // [M, K] or its transpose: K is the number of elements divided by M
      return times(2, times(sizes.outputs(), over(sizes.inputs(0), sizes.first_output_size())));
    case Flops::convolution:
      return times(2, times(sizes.outputs(), channels_and_kernel(node, sizes)));
    case Flops::transposed_convolution:
      return times(2, times(sizes.inputs(0), channels_and_kernel(node, sizes)));
    case Flops::pooling:
      return times(sizes.outputs(), kernel_of(node));
    case Flops::einsum:
      return einsum(node, sizes);
    case Flops::attention:
      return attention(node, sizes);
    case Flops::recurrent:
      return recurrent(sizes);
  }
  return std::nullopt;
}

}  // namespace

namespace {

Flops formula_of(const OnnxNode& node) {
  const bool known_domain = node.domain.empty() || node.domain == "ai.onnx" || node.domain == "com.microsoft";
  return known_domain ? operators::onnx_operator(node.op_type).flops : Flops::uncounted;
}

bool body_takes_operations(const onnx_file::OnnxGraph& body) {
  return std::ranges::any_of(onnx_file::all_nodes(body), [](const OnnxNode* node) {
    const Flops formula = formula_of(*node);
    return formula != Flops::uncounted && formula != Flops::zero;
  });
}

}  // namespace

std::optional<std::int64_t> count_operations(const OnnxNode& node, const ValueShapes& shapes) {
  return node.subgraphs.empty() ? apply(formula_of(node), node, Sizes(node, shapes)) : std::nullopt;
}

bool lacks_sizes(const OnnxNode& node, const ValueShapes& shapes) {
  if (!node.subgraphs.empty()) return std::ranges::any_of(node.subgraphs, body_takes_operations);
  return formula_of(node) != Flops::uncounted && !count_operations(node, shapes);
}

}  // namespace whence::view
