#include "schema/squeeze.h"

#include <algorithm>
#include <utility>

#include "schema/place.h"
#include "schema/size_text.h"

namespace whence {

namespace {

bool contains_axis(const Argument& dim, std::size_t axis, std::size_t rank) {
  if (const auto* list = dim.as<ArgumentList>()) {
    return std::ranges::any_of(*list, [&](const Argument& each) { return contains_axis(each, axis, rank); });
  }
  const auto* number = dim.as<std::int64_t>();
  return number != nullptr &&
         (*number < 0 ? *number + static_cast<std::int64_t>(rank) : *number) == static_cast<std::int64_t>(axis);
}

}  // namespace

std::vector<std::size_t> squeezed_axes(const Node& squeeze, std::size_t rank) {
  const Argument* dim = squeeze.find("dim");
  std::vector<std::size_t> axes;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    if (dim == nullptr || contains_axis(*dim, axis, rank)) axes.push_back(axis);
  }
  return axes;
}

SettledSqueeze settled_squeeze(const Program& program, SqueezedAxis how, std::size_t axis, const Size& length,
                               const std::string& as, Place where) {
  const bool kept = how == SqueezedAxis::kept, empty = how == SqueezedAxis::dropped_unless_empty;
  std::string message = (kept ? "squeeze keeps axis " : "squeeze drops axis ") + std::to_string(axis);
  message += empty ? ", whose size is 1, or 0 if it is empty" : ", whose size is dynamic";
  message += (as.empty() ? "" : ", " + as) + "; PyTorch ";
  message += kept    ? "drops it if the size is 1"
             : empty ? "keeps it if the size is 0, for which the file does not run"
                     : "keeps it if the size is not 1, for which the file does not run";
  const std::string remedy =
      empty  ? "select the first element by its index, x[:, 0], or run the file only with axes that are not empty"
      : kept ? "squeeze only axes that are always 1, by their numbers, or run the file only at sizes above 1"
             : "squeeze only axes that are always 1, by their numbers, or run the file only at this size";
  SettledSqueeze settled;
  if (depends_on_axes_only(program, length)) {
    settled.assumed = Constraint{
        {{length, how == SqueezedAxis::dropped ? Relation::equal : Relation::different, empty ? Size(0) : Size(1)}}};
    message += ": the file is valid only for " +
               text_of(*settled.assumed, [&](SymbolId id) { return program.symbols[id].name; });
  }
  settled.warning = warning(Code::baked_size, std::move(message), remedy, std::move(where));
  return settled;
}

}  // namespace whence
