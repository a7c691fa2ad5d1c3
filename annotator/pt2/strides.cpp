#include "annotator/pt2/strides.h"

#include <algorithm>

namespace whence::pt2 {

namespace {

// Simplifies "Max(1, n)*m" to n*m: strides do not matter for a tensor without elements.
Size without_max_one(const Size& size) {
  Size sum = size.number();
  for (const Size::Term& term : size.terms()) {
    Size product = term.coefficient;
    for (const auto& factor : term.factors) {
      const bool is_maximum = factor->kind == SizeAtom::Kind::maximum && factor->operands.size() == 2;
      const auto other = std::ranges::find_if(factor->operands, [](const Size& each) { return each != Size(1); });
      const bool is_max_one = is_maximum && std::ranges::count(factor->operands, Size(1)) == 1;
      product = product * (is_max_one ? without_max_one(*other) : Size::sum(0, {{1, {factor}}}));
    }
    sum = sum + product;
  }
  return sum;
}

std::optional<Size> length(const Part& size, const SizeNames& names) {
  if (const auto number = size.maybe("as_int")) return Size(number->integer());
  const auto expression = size.maybe("as_expr");
  const auto read = expression ? read_size(expression->at("expr_str").view(), names) : std::nullopt;
  return read && read->is_known() ? std::optional(without_max_one(*read)) : std::nullopt;
}

}  // namespace

std::optional<MemoryPlace> place_in(const Part& meta, const SizeNames& names) {
  const Part sizes = meta.at("sizes"), strides = meta.at("strides");
  const auto offset = length(meta.at("storage_offset"), names);
  if (sizes.size() != strides.size() || !offset) return std::nullopt;
  MemoryPlace place{none_id, *offset, {}, {}};
  for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
    auto size = length(sizes[axis], names), stride = length(strides[axis], names);
    if (!size || !stride) return std::nullopt;
    place.sizes.push_back(std::move(*size));
    place.strides.push_back(std::move(*stride));
  }
  return place;
}

std::optional<MemoryPlace> ArchivePlaces::operator()(ValueId id, const std::optional<MemoryPlace>& derived) const {
  if (!derived) return std::nullopt;
  const auto stated = stated_.find(id);
  std::optional<MemoryPlace> place = stated == stated_.end() ? row_major_place(program_, id) : stated->second;
  if (!place || has_same_layout(*derived, *place)) return place ? derived : std::nullopt;
  place->memory = derived->memory;
  return place;
}

void ArchivePlaces::note(ValueId id, std::optional<MemoryPlace> place) {
  const bool plain = place && place->offset == Size(0) && is_row_major(*place);
  if (!plain) stated_.emplace(id, std::move(place));
}

}  // namespace whence::pt2
