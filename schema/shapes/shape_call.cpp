// Access to the arguments of an operation, and arithmetic on shapes.
#include "schema/shapes/shape_call.h"

#include <algorithm>

namespace whence::shapes {

const Argument* ShapeCall::find_argument(std::string_view name) const {
  const Argument* argument = node_.find(name);
  return argument == nullptr || argument->is_none() ? nullptr : argument;
}

const Argument& ShapeCall::argument(std::string_view name) const {
  const Argument* argument = find_argument(name);
  if (argument == nullptr) throw NoShape();
  return *argument;
}

namespace {

const Shape& shape_of(const Argument& argument, const ShapeFacts& facts) {
  const auto* value = argument.as<ValueRef>();
  const Shape* shape = value == nullptr ? nullptr : facts.shape_of(value->id);
  if (shape == nullptr) throw NoShape();
  return *shape;
}

}  // namespace

const Shape& ShapeCall::tensor(std::string_view name) const { return shape_of(argument(name), facts_); }

const Shape& ShapeCall::first() const {
  if (node_.arguments.empty()) throw NoShape();
  return shape_of(node_.arguments.front().value, facts_);
}

std::vector<Shape> ShapeCall::all_tensors() const {
  std::vector<Shape> shapes;
  for (const NamedArgument& argument : node_.arguments) {
    if (argument.value.as<ValueRef>() != nullptr) shapes.push_back(shape_of(argument.value, facts_));
  }
  return shapes;
}

std::vector<Shape> ShapeCall::tensors(std::string_view name) const {
  const auto* list = argument(name).as<ArgumentList>();
  if (list == nullptr || list->empty()) throw NoShape();
  std::vector<Shape> shapes;
  for (const Argument& element : *list) shapes.push_back(shape_of(element, facts_));
  return shapes;
}

Size ShapeCall::integer_of(const Argument& argument) const {
  if (const auto* number = argument.as<std::int64_t>()) return *number;
  if (const auto* flag = argument.as<bool>()) return *flag ? 1 : 0;
  const auto* value = argument.as<ValueRef>();
  return value == nullptr ? Size::unknown() : facts_.number_of(value->id);
}

Size ShapeCall::integer(std::string_view name, std::optional<Size> otherwise) const {
  const Argument* argument = find_argument(name);
  if (argument != nullptr) return integer_of(*argument);
  if (!otherwise) throw NoShape();
  return *otherwise;
}

std::vector<Size> ShapeCall::integers(std::string_view name) const {
  const Argument& found = argument(name);
  const auto* list = found.as<ArgumentList>();
  if (list == nullptr) {
    if (found.as<std::int64_t>() == nullptr && found.as<ValueRef>() == nullptr) throw NoShape();
    return {integer_of(found)};
  }
  std::vector<Size> sizes;
  for (const Argument& element : *list) sizes.push_back(integer_of(element));
  return sizes;
}

std::vector<Size> ShapeCall::integers(std::string_view name, std::size_t axes, std::vector<Size> otherwise) const {
  std::vector<Size> sizes = has(name) ? integers(name) : std::vector<Size>();
  if (sizes.empty()) sizes = std::move(otherwise);
  if (sizes.size() == 1) sizes.resize(axes, sizes.front());
  if (sizes.size() != axes) throw NoShape();
  return sizes;
}

std::int64_t ShapeCall::literal(std::string_view name, std::optional<std::int64_t> otherwise) const {
  const auto number = integer(name, otherwise ? std::optional<Size>(*otherwise) : std::nullopt).integer();
  if (!number) throw NoShape();
  return *number;
}

bool ShapeCall::flag(std::string_view name, bool otherwise) const {
  const Argument* argument = find_argument(name);
  if (argument == nullptr) return otherwise;
  const auto* flag = argument->as<bool>();
  if (flag == nullptr) throw NoShape();
  return *flag;
}

bool ShapeCall::is_mask(const Argument& argument) const {
  const auto* value = argument.as<ValueRef>();
  return value != nullptr && facts_.is_mask(value->id);
}

std::size_t ShapeCall::axis(std::string_view name, std::size_t rank, std::optional<std::int64_t> otherwise) const {
  return axis_at(literal(name, otherwise), rank);
}

std::vector<std::size_t> ShapeCall::axes(std::string_view name, std::size_t rank) const {
  std::vector<std::size_t> axes;
  if (!has(name)) return axes;
  for (const Size& axis : integers(name)) {
    if (!axis.integer()) throw NoShape();
    axes.push_back(axis_at(*axis.integer(), rank));
  }
  return axes;
}

std::size_t axis_at(std::int64_t axis, std::size_t rank) {
  const auto count = static_cast<std::int64_t>(rank);
  if (axis < 0) axis += count;
  if (axis < 0 || axis >= count) throw NoShape();
  return static_cast<std::size_t>(axis);
}

Size product_of(const Shape& shape) {
  Size product = 1;
  for (const Size& size : shape) product = product * size;
  return product;
}

Size ceil_div(const Size& a, const Size& b) { return floor_div(a + b - 1, b); }

Size broadcast(const Size& a, const Size& b) {
  if (a == Size(1) || certainly_equal(a, b)) return b;
  if (b == Size(1)) return a;
  if (a.integer()) return a;
  return b.integer() ? b : Size::unknown();
}

Shape broadcast(const Shape& a, const Shape& b) {
  const Shape &longer = a.size() < b.size() ? b : a, &shorter = a.size() < b.size() ? a : b;
  Shape result = longer;
  const std::size_t added = longer.size() - shorter.size();
  for (std::size_t i = 0; i < shorter.size(); ++i) result[added + i] = broadcast(longer[added + i], shorter[i]);
  return result;
}

}  // namespace whence::shapes
