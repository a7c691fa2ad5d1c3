// The warnings about squeezes of axes with dynamic size.
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
  message += empty ? ", which is 1 long or, of an empty axis, 0" : ", whose size is dynamic";
  message += (as.empty() ? "" : ", " + as) + "; PyTorch ";
  message += kept    ? "drops it where it is 1"
             : empty ? "keeps it where it is 0, and the file does not run there"
                     : "keeps it where it is not, and the file does not run there";
  const std::string remedy =
      empty ? "take the first element by its number, x[:, 0], or run the file only at sizes where there is one"
            : "squeeze by number the axes that are always 1, or run the file at sizes above 1 only";
  SettledSqueeze settled;
  if (is_of_axes(program, length)) {
    settled.assumed = Constraint{
        {{length, how == SqueezedAxis::dropped ? Relation::equal : Relation::different, empty ? Size(0) : Size(1)}}};
    message +=
        ": the file holds where " + text_of(*settled.assumed, [&](SymbolId id) { return program.symbols[id].name; });
  }
  settled.warning = warning(Code::baked_size, std::move(message), remedy, std::move(where));
  return settled;
}

}  // namespace whence
