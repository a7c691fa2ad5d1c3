// ShapeCall: an operation as a shape function sees it. What it cannot tell it throws as NoShape, so that a row states
// nothing but its formula.
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
  bool has(std::string_view name) const { return given(name) != nullptr; }  // neither absent nor None

  const Shape& tensor(std::string_view name) const;
  const Shape& first() const;                               // the first argument
  std::vector<Shape> all_tensors() const;                   // the arguments that are tensors; no lists
  std::vector<Shape> tensors(std::string_view name) const;  // a list
  const Argument& argument(std::string_view name) const;

  // A number that is not known is unknown; `otherwise` stands for None, and for a default that the call leaves out.
  Size integer(std::string_view name, std::optional<Size> otherwise = {}) const;
  Size integer_of(const Argument& argument) const;
  std::vector<Size> integers(std::string_view name) const;  // one integer is a list of one
  // The same, one for each of `axes`, from a list of one too; `otherwise` for an empty one and None.
  std::vector<Size> integers(std::string_view name, std::size_t axes, std::vector<Size> otherwise) const;
  std::int64_t literal(std::string_view name, std::optional<std::int64_t> otherwise = {}) const;
  bool flag(std::string_view name, bool otherwise) const;
  bool is_mask(const Argument& argument) const;

  // The position of an axis that an argument numbers, from the end too.
  std::size_t axis(std::string_view name, std::size_t rank, std::optional<std::int64_t> otherwise = {}) const;
  std::vector<std::size_t> axes(std::string_view name, std::size_t rank) const;  // none for None

  bool not_negative(const Size& size) const { return range_of(size, facts_.ranges).min >= 0; }
  bool negative(const Size& size) const { return size.is_known() && range_of(size, facts_.ranges).max < 0; }
  Size at_least_0(const Size& size) const { return not_negative(size) ? size : maximum({0, size}); }
  // The place that a bound of a slice means, counted from the end if it is negative; not yet cut at the length.
  Size place_of(const Size& bound, const Size& length) const {
    if (not_negative(bound)) return bound;
    if (negative(bound)) return at_least_0(length + bound);
    const Size from_the_end = minimum({1, maximum({0, Size(0) - bound})});  // 1 or 0
    return at_least_0(bound + length * from_the_end);
  }
  const ShapeFacts& facts() const { return facts_; }

 private:
  const Argument* given(std::string_view name) const;

  const Node& node_;
  const ShapeFacts& facts_;
};

std::size_t axis_at(std::int64_t axis, std::size_t rank);
Size product_of(const Shape& shape);
Size ceil_div(const Size& a, const Size& b);
// Returns the length that two become, one of 1 being repeated; unknown unless it is certain which is 1.
Size broadcast(const Size& a, const Size& b);
Shape broadcast(const Shape& a, const Shape& b);

using Shapes = std::vector<Shape>;
using ShapeFunction = Shapes (*)(const ShapeCall&);

struct Row {
  ShapeFunction function;
  std::string_view operators;  // without "aten::", with spaces between
};

// The sizes of a view's results, as the rule of its form in ../view_places.cpp has them.
Shapes shapes_of_view(const ShapeCall& call, ViewForm form);

// By subject, each in a file of its own.
const std::vector<Row>& pointwise_rows();
const std::vector<Row>& view_rows();
const std::vector<Row>& join_rows();
const std::vector<Row>& product_rows();
const std::vector<Row>& window_rows();
const std::vector<Row>& maker_rows();

}  // namespace whence::shapes
