#include "annotator/pt2/strides.h"

#include <algorithm>

namespace whence::pt2 {

namespace {

std::optional<SizeProduct> product(const Part& size) {
  if (const auto number = size.maybe("as_int")) return SizeProduct{number->integer(), {}};
  const auto expression = size.maybe("as_expr");
  return expression ? size_product(expression->at("expr_str").view()) : std::nullopt;
}

bool is_one(const SizeProduct& size) { return size == SizeProduct{}; }

bool is_static(const Strided& tensor) {
  const auto known = [](const SizeProduct& size) { return size.factors.empty(); };
  return std::ranges::all_of(tensor.sizes, known) && std::ranges::all_of(tensor.strides, known);
}

// An axis of one element may have any stride.
bool same_strides(const Strided& one, const Strided& other) {
  if (one.sizes != other.sizes) return false;
  for (std::size_t axis = 0; axis < one.sizes.size(); ++axis) {
    if (!is_one(one.sizes[axis]) && one.strides[axis] != other.strides[axis]) return false;
  }
  return true;
}

// True if two axes of more than one element each lie in another order, whatever the dynamic sizes are.
bool never_in_rows(const Strided& tensor) {
  const auto stays = [&](std::size_t axis) {
    return tensor.sizes[axis].factors.empty() && !is_one(tensor.sizes[axis]);
  };
  for (std::size_t outer = 0; outer < tensor.sizes.size(); ++outer) {
    for (std::size_t inner = outer + 1; inner < tensor.sizes.size(); ++inner) {
      const SizeProduct &one = tensor.strides[outer], &other = tensor.strides[inner];
      if (stays(outer) && stays(inner) && one.factors == other.factors && one.number < other.number) return true;
    }
  }
  return false;
}

}  // namespace

std::optional<Strided> strided(const Part& graph, const std::optional<Part>& operand) {
  const auto tensor = operand ? operand->maybe("as_tensor") : std::nullopt;
  const auto meta = tensor ? graph.at("tensor_values").maybe(tensor->at("name").text()) : std::nullopt;
  if (!meta) return std::nullopt;
  const Part sizes = meta->at("sizes"), strides = meta->at("strides");
  if (sizes.size() != strides.size()) return std::nullopt;
  Strided result;
  for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
    auto size = product(sizes[axis]), stride = product(strides[axis]);
    if (!size || !stride) return std::nullopt;
    result.sizes.push_back(std::move(*size));
    result.strides.push_back(std::move(*stride));
  }
  if (const auto offset = meta->at("storage_offset").maybe("as_int")) result.offset = offset->integer();
  return result;
}

bool in_rows(const Strided& tensor) {
  std::optional<SizeProduct> expected = SizeProduct{};
  for (std::size_t axis = tensor.sizes.size(); axis-- > 0;) {
    if (!expected || (!is_one(tensor.sizes[axis]) && tensor.strides[axis] != *expected)) return false;
    expected = multiplied(*expected, tensor.sizes[axis]);
  }
  return true;
}

// contiguous() gives its argument back where that has the strides asked for, and to() where those of axes of one
// element are the same, too. A reshape of rows is a view; of other memory it may be one, which does not lie in rows
// either: a copy does.
std::optional<bool> shares_memory(const Node& reshape, const Strided& argument, const Strided& result) {
  const bool casts = reshape.target == "aten::to", arranges = casts || reshape.target == "aten::contiguous";
  if (casts ? argument.strides == result.strides : arranges ? same_strides(argument, result) : in_rows(argument)) {
    return true;
  }
  if (never_in_rows(argument) && in_rows(result)) return false;
  if (!is_static(argument) || !is_static(result)) return std::nullopt;
  return !arranges && !in_rows(result);
}

std::optional<ArgumentList> as_memory_argument(const Strided& tensor) {
  if (!tensor.offset) return std::nullopt;
  ArgumentList list{{*tensor.offset}};
  for (const SizeProduct& stride : tensor.strides) {
    if (!stride.factors.empty()) return std::nullopt;
    list.push_back({stride.number});
  }
  return list;
}

}  // namespace whence::pt2
