#include "schema/squeeze.h"

#include <algorithm>
#include <utility>

namespace whence {

namespace {

bool names(const Argument& dim, std::size_t axis, std::size_t rank) {
  if (const auto* list = dim.as<ArgumentList>()) {
    return std::ranges::any_of(*list, [&](const Argument& each) { return names(each, axis, rank); });
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
    if (dim == nullptr || names(*dim, axis, rank)) axes.push_back(axis);
  }
  return axes;
}

Diagnostic settled_squeeze(bool drops, std::size_t axis, const std::string& as, Place where) {
  std::string message = drops ? "squeeze drops axis " : "squeeze keeps axis ";
  message += std::to_string(axis) + ", whose size is dynamic, " + as;
  message += drops ? "; PyTorch keeps it where it is not, and the file does not run there"
                   : "; PyTorch drops it where it is 1";
  return warning(Code::baked_size, std::move(message),
                 "squeeze by number the axes that are always 1, or run the result at sizes above 1 only",
                 std::move(where));
}

}  // namespace whence
