#include "annotator/comparison/cuts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "annotator/comparison/stated_numbers.h"
#include "annotator/derivation/program_constants.h"
#include "annotator/onnx_file/node_attributes.h"
#include "annotator/program/tensor_values.h"
#include "schema/dtype.h"

namespace whence::comparison {

using derivation::is_half_of;
using derivation::no_tensor;
using derivation::TensorNumber;

using onnx_file::OnnxNode;

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

bool same(double a, double b) {
  constexpr double rounding = 1e-3;  // of float16
  return a == b || std::abs(a - b) <= rounding * std::max(std::abs(a), std::abs(b));
}

std::string to_text(const std::pair<double, double>& bounds) {
  std::ostringstream text;
  text << bounds.first << " and " << bounds.second;
  return text.str();
}

}  // namespace

bool Cuts::fits(const OnnxNode& node, const std::vector<std::int32_t>& operations) const {
  const auto own = bounds_of(node);
  if (!own) return false;
  const Bounds all = all_bounds(node, *own);
  const bool is_of_halves = std::ranges::any_of(node.inputs, [&](std::string_view input) {
    const TensorNumber tensor = tensors_.find(input);
    return tensor != no_tensor && from_onnx(tensors_[tensor].tensor->data_type) == DType::float16;
  });
  return std::ranges::any_of(operations, [&](std::int32_t operation) {
    const auto expected = comparison::bounds_of(operations_, operation);
    const auto is_bound = [&](double bound, double of_program) {
      return same(bound, of_program) || (is_of_halves && is_half_of(bound, of_program));
    };
    const auto equals = [&](const Bounds& each) {
      return is_bound(each.first, expected->first) && is_bound(each.second, expected->second);
    };
    return expected && (equals(*own) || equals(all));
  });
}

std::string Cuts::difference(const OnnxNode& node, const std::vector<std::int32_t>& operations) const {
  const auto own = bounds_of(node);
  std::optional<Bounds> expected;
  for (const std::int32_t operation : operations) {
    if (!expected) expected = comparison::bounds_of(operations_, operation);
  }
  if (!own || !expected || fits(node, operations)) return "";
  return "cuts off at " + to_text(*own) + ", the program at " + to_text(*expected);
}

std::optional<double> Cuts::number_in(const OnnxNode& node, std::size_t slot) const {
  const TensorNumber tensor = slot < node.inputs.size() ? tensors_.find(node.inputs[slot]) : no_tensor;
  if (tensor == no_tensor) return std::nullopt;
  const TensorData data = contents_.data(tensors_[tensor]);
  const auto elements = program::Elements::of(data);
  return elements && elements->size() == 1 ? std::optional(elements->number(0)) : std::nullopt;
}

std::optional<Cuts::Bounds> Cuts::bounds_of(const OnnxNode& node) const {
  if (!node.domain.empty()) return std::nullopt;
  if (node.op_type == "Relu") return Bounds(0, infinite);
  if ((node.op_type == "Max" || node.op_type == "Min") && node.inputs.size() == 2) {
    auto number = number_in(node, 1);
    if (!number) number = number_in(node, 0);
    if (!number) return std::nullopt;
    return node.op_type == "Max" ? Bounds(*number, infinite) : Bounds(-infinite, *number);
  }
  // Before opset 11, the bounds are attributes.
  if (node.op_type != "Clip" || !node.attributes.empty()) return std::nullopt;
  const auto bound = [&](std::size_t slot, double otherwise) {
    const bool is_stated = slot < node.inputs.size() && !node.inputs[slot].empty();
    return is_stated ? number_in(node, slot) : std::optional(otherwise);
  };
  const auto low = bound(1, -infinite), high = bound(2, infinite);
  return low && high ? std::optional(Bounds(*low, *high)) : std::nullopt;
}

Cuts::Bounds Cuts::all_bounds(const OnnxNode& node, Bounds own) const {
  constexpr int longest = 4;  // nodes
  const auto add = [&](const OnnxNode* other) {
    const auto bounds = other == nullptr ? std::nullopt : bounds_of(*other);
    if (bounds) own = {std::max(own.first, bounds->first), std::min(own.second, bounds->second)};
    return bounds.has_value();
  };
  const OnnxNode* at = &node;
  for (int steps = 0; steps < longest && !at->inputs.empty(); ++steps) {
    const OnnxNode* const maker = tensors_.producer(at->inputs[0]);
    if (!add(maker)) break;
    at = maker;
  }
  at = &node;
  for (int steps = 0; steps < longest && !at->outputs.empty(); ++steps) {
    const auto& readers = tensors_.readers(at->outputs[0]);
    if (readers.size() != 1 || !add(readers[0])) break;
    at = readers[0];
  }
  return own;
}

}  // namespace whence::comparison
