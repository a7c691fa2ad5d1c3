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

// Weights [M, C/group, k...]: QLinearConv has them behind its input's scale and zero point.
Count channels_and_kernel(const OnnxNode& node, const Sizes& sizes) {
  const std::size_t at = node.op_type == "QLinearConv" ? 3 : 1;
  const auto* weight = sizes.input(at);
  return weight != nullptr && !weight->empty() ? over(sizes.inputs(at), weight->front()) : std::nullopt;
}

// K of [.., M, K] times [.., K, N]. FusedMatMul may read its left operand transposed: [.., K, M], and with transBatchA
// [K, .., M] or [M, .., K].
Count inner_size(const OnnxNode& node, const Sizes& sizes) {
  const auto* left = sizes.input(0);
  if (left == nullptr || left->empty()) return std::nullopt;
  if (left->size() == 1 || !is_set(node, "transA")) return left->back();
  return is_set(node, "transBatchA") ? left->front() : left->end()[-2];
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
    case Flops::gemm:  // [M, K] or its transpose: K is what M leaves
      return times(2, times(sizes.outputs(), over(sizes.inputs(0), sizes.first_output_size())));
    case Flops::convolution:
      return times(2, times(sizes.outputs(), channels_and_kernel(node, sizes)));
    case Flops::transposed_convolution:
      return times(2, times(sizes.inputs(0), channels_and_kernel(node, sizes)));
    case Flops::pooling:
      return times(sizes.outputs(), kernel_of(node));
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
