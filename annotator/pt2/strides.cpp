#include "annotator/pt2/strides.h"

#include <algorithm>

namespace whence::pt2 {

namespace {

// "Max(1, n)*m" as n*m: of a tensor without elements the strides do not matter.
Size without_least(const Size& size) {
  Size sum = size.number();
  for (const Size::Term& term : size.terms()) {
    Size product = term.coefficient;
    for (const auto& factor : term.factors) {
      const bool least = factor->kind == SizeAtom::Kind::maximum && factor->operands.size() == 2;
      const auto other = std::ranges::find_if(factor->operands, [](const Size& each) { return each != Size(1); });
      const bool of_one = least && std::ranges::count(factor->operands, Size(1)) == 1;
      product = product * (of_one ? without_least(*other) : Size::sum(0, {{1, {factor}}}));
    }
    sum = sum + product;
  }
  return sum;
}

std::optional<Size> length(const Part& size, const SizeNames& names) {
  if (const auto number = size.maybe("as_int")) return Size(number->integer());
  const auto expression = size.maybe("as_expr");
  const auto read = expression ? read_size(expression->at("expr_str").view(), names) : std::nullopt;
  return read && read->is_known() ? std::optional(without_least(*read)) : std::nullopt;
}

bool is_one(const Size& size) { return size == Size(1); }

bool is_static(const Strided& tensor) {
  const auto known = [](const Size& size) { return size.is_integer(); };
  return std::ranges::all_of(tensor.sizes, known) && std::ranges::all_of(tensor.strides, known);
}

// True if `one` is a smaller multiple than `other` of one product.
bool is_smaller_multiple(const Size& one, const Size& other) {
  if (one.is_integer() || other.is_integer()) return one.is_integer() && other.is_integer() && one < other;
  const std::int64_t times = one.terms()[0].coefficient, others = other.terms()[0].coefficient;
  return 0 < times && times < others && certainly_equal(one * others, other * times);
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
  const auto stays = [&](std::size_t axis) { return tensor.sizes[axis].is_integer() && !is_one(tensor.sizes[axis]); };
  for (std::size_t outer = 0; outer < tensor.sizes.size(); ++outer) {
    for (std::size_t inner = outer + 1; inner < tensor.sizes.size(); ++inner) {
      if (stays(outer) && stays(inner) && is_smaller_multiple(tensor.strides[outer], tensor.strides[inner]))
        return true;
    }
  }
  return false;
}

}  // namespace

std::optional<Strided> strided(const Part& graph, const std::optional<Part>& operand, const SizeNames& names) {
  const auto tensor = operand ? operand->maybe("as_tensor") : std::nullopt;
  const auto meta = tensor ? graph.at("tensor_values").maybe(tensor->at("name").text()) : std::nullopt;
  if (!meta) return std::nullopt;
  const Part sizes = meta->at("sizes"), strides = meta->at("strides");
  if (sizes.size() != strides.size()) return std::nullopt;
  Strided result;
  for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
    auto size = length(sizes[axis], names), stride = length(strides[axis], names);
    if (!size || !stride) return std::nullopt;
    result.sizes.push_back(std::move(*size));
    result.strides.push_back(std::move(*stride));
  }
  if (const auto offset = meta->at("storage_offset").maybe("as_int")) result.offset = offset->integer();
  return result;
}

bool in_rows(const Strided& tensor) {
  Size expected = 1;
  for (std::size_t axis = tensor.sizes.size(); axis-- > 0;) {
    if (!is_one(tensor.sizes[axis]) && !certainly_equal(tensor.strides[axis], expected)) return false;
    expected = expected * tensor.sizes[axis];
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
  for (const Size& stride : tensor.strides) {
    if (!stride.is_integer()) return std::nullopt;
    list.push_back({stride.number()});
  }
  return list;
}

}  // namespace whence::pt2
