// ShapeCall: the arguments of an operation, for shape functions. Throws NoShape for a missing or unsupported argument,
// so that a shape function contains only its formula.
#pragma once

#include <exception>
#include <string>

#include "schema/operator_facts.h"
#include "schema/shape_functions.h"

namespace whence::shapes {

struct NoShape : std::exception {};

class ShapeCall {
 public:
  ShapeCall(const Node& node, const ShapeFacts& facts) : node_(node), facts_(facts) {}

  const Node& node() const { return node_; }
  std::size_t results() const { return node_.outputs.size(); }
  bool has(std::string_view name) const { return find_argument(name) != nullptr; }  // false if absent or None

  const Shape& tensor(std::string_view name) const;
  const Shape& first() const;                               // of the first argument
  std::vector<Shape> all_tensors() const;                   // of all tensor arguments, without lists of tensors
  std::vector<Shape> tensors(std::string_view name) const;  // of a list of tensors
  const Argument& argument(std::string_view name) const;

  // `otherwise`: the result if the argument is None or absent. Unknown numbers are Size::unknown().
  Size integer(std::string_view name, std::optional<Size> otherwise = {}) const;
  Size integer_of(const Argument& argument) const;
  std::vector<Size> integers(std::string_view name) const;  // one integer becomes a list
  // Returns one integer for each of `axes`; a single integer is repeated. `otherwise` replaces an empty list and None.
  std::vector<Size> integers(std::string_view name, std::size_t axes, std::vector<Size> otherwise) const;
  std::int64_t literal(std::string_view name, std::optional<std::int64_t> otherwise = {}) const;
  bool flag(std::string_view name, bool otherwise) const;
  bool is_mask(const Argument& argument) const;

  // Returns the index of an axis. The argument may count from the end.
  std::size_t axis(std::string_view name, std::size_t rank, std::optional<std::int64_t> otherwise = {}) const;
  std::vector<std::size_t> axes(std::string_view name, std::size_t rank) const;  // empty for None

  bool not_negative(const Size& size) const { return range_of(size, facts_.ranges).min >= 0; }
  bool negative(const Size& size) const { return size.is_known() && range_of(size, facts_.ranges).max < 0; }
  Size at_least_0(const Size& size) const { return not_negative(size) ? size : maximum({0, size}); }
  // Returns the index of a slice bound, which counts from the end if negative. Does not clamp it to the length.
  Size bound_index(const Size& bound, const Size& length) const {
    if (not_negative(bound)) return bound;
    if (negative(bound)) return at_least_0(length + bound);
    const Size from_end = minimum({1, maximum({0, Size(0) - bound})});  // 1 if negative, else 0
    return at_least_0(bound + length * from_end);
  }
  const ShapeFacts& facts() const { return facts_; }

 private:
  const Argument* find_argument(std::string_view name) const;

  const Node& node_;
  const ShapeFacts& facts_;
};

std::size_t axis_at(std::int64_t axis, std::size_t rank);
Size product_of(const Shape& shape);
Size ceil_div(const Size& a, const Size& b);
// Returns the broadcast length; unknown unless it is certain which one is 1.
Size broadcast(const Size& a, const Size& b);
Shape broadcast(const Shape& a, const Shape& b);

using Shapes = std::vector<Shape>;
using ShapeFunction = Shapes (*)(const ShapeCall&);

struct Row {
  ShapeFunction function;
  std::string_view operators;  // names without "aten::", separated by spaces
};

// Returns the result sizes of a view by the rule for its form in ../view_places.cpp.
Shapes shapes_of_view(const ShapeCall& call, ViewForm form);

// The rows by subject, each in its own file.
const std::vector<Row>& pointwise_rows();
const std::vector<Row>& view_rows();
const std::vector<Row>& join_rows();
const std::vector<Row>& product_rows();
const std::vector<Row>& window_rows();
const std::vector<Row>& maker_rows();

}  // namespace whence::shapes
