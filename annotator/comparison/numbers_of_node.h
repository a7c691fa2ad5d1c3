// The inputs and attributes of a node as numbers, for the evaluation of operators (operator_results.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "annotator/graph/graph.h"
#include "annotator/program/tensor_values.h"
#include "annotator/simplify/evaluate/evaluate.h"
#include "schema/element_count.h"
#include "schema/tensor_data.h"

namespace whence::comparison {

using Sizes64 = std::vector<std::int64_t>;

struct Numbers {
  Sizes64 shape;
  std::vector<double> all;
};

inline std::optional<Numbers> numbers_of(const simplify::Constants& inputs, std::size_t slot) {
  if (slot >= inputs.size() || inputs[slot] == nullptr) return std::nullopt;
  const auto elements = program::Elements::of(*inputs[slot]);
  if (!elements) return std::nullopt;
  Numbers numbers{inputs[slot]->shape, std::vector<double>(elements->size())};
  for (std::size_t i = 0; i < numbers.all.size(); ++i) numbers.all[i] = elements->number(i);
  return numbers;
}

inline TensorData tensor_of(const Numbers& numbers, DType dtype = DType::float32) {
  const TensorData wide{DType::float64, numbers.shape,
                        Bytes::copy_of(numbers.all.data(), numbers.all.size() * sizeof(double))};
  return program::cast_tensor(wide, dtype).value();
}

inline double number_attribute(const graph::GraphNode& node, std::string_view name, double otherwise) {
  const graph::Attribute* const stated = node.find(name);
  const auto* const number = stated == nullptr ? nullptr : std::get_if<float>(&stated->value);
  return number == nullptr ? otherwise : *number;
}

inline std::string text_attribute(const graph::GraphNode& node, std::string_view name, std::string otherwise) {
  const graph::Attribute* const stated = node.find(name);
  const auto* const text = stated == nullptr ? nullptr : std::get_if<std::string>(&stated->value);
  return text == nullptr ? std::move(otherwise) : *text;
}

inline Sizes64 integers_attribute(const graph::GraphNode& node, std::string_view name, Sizes64 otherwise) {
  const graph::Attribute* const stated = node.find(name);
  const auto* const numbers = stated == nullptr ? nullptr : std::get_if<Sizes64>(&stated->value);
  return numbers == nullptr ? std::move(otherwise) : *numbers;
}

// Returns the number of elements of the axes [first, last).
inline std::size_t count_of_axes(const Sizes64& shape, std::size_t first, std::size_t last) {
  std::size_t count = 1;
  for (std::size_t i = first; i < last; ++i) count *= static_cast<std::size_t>(shape[i]);
  return count;
}

}  // namespace whence::comparison
