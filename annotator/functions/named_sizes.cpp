#include "annotator/functions/named_sizes.h"

#include <optional>
#include <set>

namespace whence::functions {

namespace {

std::set<std::string> names_of_inputs(const onnx::GraphProto& graph) {
  std::set<std::string> names;
  for (const onnx::ValueInfoProto& input : graph.input()) {
    for (const auto& dim : input.type().tensor_type().shape().dim()) {
      if (!dim.dim_param().empty()) names.insert(dim.dim_param());
    }
  }
  return names;
}

bool is_prime(std::int64_t number) {
  for (std::int64_t divisor = 2; divisor * divisor <= number; ++divisor) {
    if (number % divisor == 0) return false;
  }
  return true;
}

// Returns a different prime for each size, from `number` on: no sum or product of a few is another size.
Sizes prime_sizes(const std::set<std::string>& names, std::int64_t& number) {
  Sizes sizes;
  for (const std::string& name : names) {
    while (!is_prime(number)) ++number;
    sizes.emplace(name, number++);
  }
  return sizes;
}

std::optional<std::int64_t> size_in(const ValueTypes& types, const std::string& value, int axis, int rank) {
  const auto found = types.find(value);
  if (found == types.end()) return std::nullopt;
  const auto& dims = found->second->tensor_type().shape().dim();
  return dims.size() == rank && dims[axis].has_dim_value() ? std::optional(dims[axis].dim_value()) : std::nullopt;
}

}  // namespace

NamedSizes::NamedSizes(const ModelParts& parts) {
  const std::set<std::string> names = names_of_inputs(parts.frame.graph());
  if (names.empty()) return;
  std::int64_t number = 11;  // larger than usual kernels
  first_sizes_ = prime_sizes(names, number);
  second_sizes_ = prime_sizes(names, number);
  first_types_ = value_types(parts, first_sizes_);
  second_types_ = value_types(parts, second_sizes_);
}

std::string NamedSizes::name_of(const std::string& value, int axis, int rank) const {
  const auto first = size_in(first_types_, value, axis, rank), second = size_in(second_types_, value, axis, rank);
  if (!first || !second) return "";
  for (const auto& [name, size] : first_sizes_) {
    if (size == *first && second_sizes_.at(name) == *second) return name;
  }
  return "";
}

void NamedSizes::fill_in(const std::string& name, onnx::TypeProto& type) const {
  if (!type.has_tensor_type() || !type.tensor_type().has_shape()) return;
  auto& dims = *type.mutable_tensor_type()->mutable_shape()->mutable_dim();
  for (int axis = 0; axis < dims.size(); ++axis) {
    if (dims[axis].has_dim_value() || first_sizes_.contains(dims[axis].dim_param())) continue;
    const std::string size = name_of(name, axis, dims.size());
    if (!size.empty()) dims[axis].set_dim_param(size);
  }
}

}  // namespace whence::functions
