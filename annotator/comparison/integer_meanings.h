// IntegerMeanings: the scale and the zero point of integers are stated twice, where they are made and where they are
// read. Both must be the same.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "annotator/comparison/packed_products.h"
#include "annotator/comparison/quantised_operators.h"
#include "annotator/derivation/contents.h"
#include "annotator/derivation/file_tensors.h"
#include "annotator/onnx_file/onnx_summary.h"
#include "annotator/program/tensor_values.h"

namespace whence::comparison {

class IntegerMeanings {
 public:
  // Both must outlive this object.
  IntegerMeanings(const derivation::FileTensors& tensors, derivation::Contents& contents)
      : tensors_(tensors), contents_(contents) {}

  // Returns what a node reads otherwise than the maker of its integers wrote it; "" if nothing.
  std::string difference(const onnx_file::OnnxNode& node) {
    for (const Reading& reading : readings_of(node)) {
      if (!agrees(reading.integers, reading, 0)) return "reads integers with another scale or zero point than theirs";
    }
    return "";
  }

 private:
  struct Meaning {
    std::optional<std::string_view> scale = {};  // nullopt: an operator without scales
    std::string_view zero = {};                  // "": 0
  };
  struct Reading : Meaning {
    std::string_view integers = {};
  };

  static std::string_view input(const onnx_file::OnnxNode& node, std::size_t slot) {
    return slot < node.inputs.size() ? node.inputs[slot] : std::string_view();
  }

  static std::vector<Reading> readings_of(const onnx_file::OnnxNode& node) {
    constexpr std::size_t first_zero = 2, second_zero = 3;
    if (node.op_type == "DequantizeLinear") return {{{input(node, 1), input(node, 2)}, input(node, 0)}};
    if (node.op_type == "MatMulInteger" || node.op_type == "ConvInteger")
      return {{{{}, input(node, first_zero)}, input(node, 0)}, {{{}, input(node, second_zero)}, input(node, 1)}};
    std::vector<Reading> all;
    if (const auto quantised = quantised_inputs(node)) {
      for (const std::size_t slot : quantised->operands)
        all.push_back({{input(node, slot + 1), input(node, slot + 2)}, input(node, slot)});
    }
    return all;
  }

  static std::optional<Meaning> meaning_of_result(const onnx_file::OnnxNode& maker) {
    if (maker.op_type == "QuantizeLinear") return Meaning{input(maker, 1), input(maker, 2)};
    if (maker.op_type == "DynamicQuantizeLinear" && maker.outputs.size() > 2)
      return Meaning{maker.outputs[1], maker.outputs[2]};
    const auto quantised = quantised_inputs(maker);
    if (!quantised) return std::nullopt;
    return Meaning{input(maker, quantised->result), input(maker, quantised->result + 1)};
  }

  // Follows integers back to their makers, through nodes that only move or choose them.
  bool agrees(std::string_view integers, const Reading& reading, int depth) {
    static const std::set<std::string_view> keeping = {"DepthToSpace", "Expand",    "Flatten",  "Gather", "Identity",
                                                       "MaxPool",      "Reshape",   "Slice",    "Split",  "Squeeze",
                                                       "SpaceToDepth", "Transpose", "Unsqueeze"};
    constexpr int deepest = 64;
    const onnx_file::OnnxNode* const maker = tensors_.producer(integers);
    if (maker == nullptr) return !is_bias(integers) || is_same(reading.zero, {});
    if (const auto written = meaning_of_result(*maker)) {
      const bool has_scale = reading.scale && written->scale;
      return (!has_scale || is_same(*reading.scale, *written->scale)) && is_same(reading.zero, written->zero);
    }
    if (depth == deepest || maker->inputs.empty()) return true;
    if (keeping.contains(maker->op_type)) return agrees(maker->inputs[0], reading, depth + 1);
    if (maker->op_type != "Concat") return true;
    return std::ranges::all_of(maker->inputs, [&](std::string_view part) { return agrees(part, reading, depth + 1); });
  }

  // Integers of 32 bits are sums of products, whose zero point is 0.
  bool is_bias(std::string_view integers) const {
    const derivation::TensorNumber tensor = tensors_.find(integers);
    return tensor != derivation::no_tensor && from_onnx(tensors_[tensor].tensor->data_type) == DType::int32;
  }

  bool is_same(std::string_view own, std::string_view other) {
    if (own == other) return true;
    const auto numbers = numbers_of_constant(own), others = numbers_of_constant(other);
    if (numbers && others && (own.empty() || other.empty())) {
      const auto& stated = own.empty() ? *others : *numbers;
      return std::ranges::all_of(stated, [](double each) { return each == 0; });
    }
    // Nothing is known of numbers that the file computes.
    return !numbers || !others || *numbers == *others;
  }

  // Returns no numbers for "", and nullopt for a value that is computed or of a type that is not read.
  std::optional<std::vector<double>> numbers_of_constant(std::string_view value) {
    if (value.empty()) return std::vector<double>();
    const derivation::TensorNumber tensor = constant_of(value, tensors_);
    if (tensor == derivation::no_tensor) return std::nullopt;
    const TensorData data = contents_.data(tensors_[tensor]);
    const auto elements = program::Elements::of(data);
    if (!elements) return std::nullopt;
    std::vector<double> numbers(elements->size());
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = elements->number(i);
    return numbers;
  }

  const derivation::FileTensors& tensors_;
  derivation::Contents& contents_;
};

}  // namespace whence::comparison
