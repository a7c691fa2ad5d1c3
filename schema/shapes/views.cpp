// Shape functions for reshapes, slices and some other views. The sizes of the remaining views follow from their layouts
// (../view_places.cpp).
#include <algorithm>
#include <limits>

#include "schema/shapes/shape_call.h"

namespace whence::shapes {

namespace {

// Replaces -1 in the sizes with the number of elements divided by the other sizes.
Shape with_inferred(Shape sizes, const Size& elements) {
  const auto inferred = std::ranges::find(sizes, Size(-1));
  if (inferred == sizes.end()) return sizes;
  Size others = 1;
  for (auto each = sizes.begin(); each != sizes.end(); ++each) {
    if (each != inferred) others = others * *each;
  }
  *inferred = floor_div(elements, others);
  return sizes;
}

Shapes reshape(const ShapeCall& call) {
  if (call.node().overload == "dtype") return {call.first()};
  return {with_inferred(call.integers(call.has("shape") ? "shape" : "size"), product_of(call.first()))};
}

Shapes as_other(const ShapeCall& call) { return {call.tensor("other")}; }

Shapes flatten(const ShapeCall& call) {
  const Shape& shape = call.first();
  if (shape.empty()) return {{1}};
  const std::size_t start = call.axis("start_dim", shape.size(), 0), end = call.axis("end_dim", shape.size(), -1);
  if (start > end) throw NoShape();
  Shape result(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(start));
  const auto after = shape.begin() + static_cast<std::ptrdiff_t>(end) + 1;
  result.push_back(product_of({shape.begin() + static_cast<std::ptrdiff_t>(start), after}));
  result.insert(result.end(), after, shape.end());
  return {result};
}

Shapes ravel(const ShapeCall& call) { return {{product_of(call.first())}}; }

Shapes unflatten(const ShapeCall& call) {
  Shape shape = call.first();
  const auto axis = shape.begin() + static_cast<std::ptrdiff_t>(call.axis("dim", shape.size()));
  const Shape sizes = with_inferred(call.integers("sizes"), *axis);
  return {[&] {
    Shape result(shape.begin(), axis);
    result.insert(result.end(), sizes.begin(), sizes.end());
    result.insert(result.end(), axis + 1, shape.end());
    return result;
  }()};
}

Shapes expand(const ShapeCall& call) {
  const Shape& shape = call.first();
  Shape sizes = call.integers("size");
  if (sizes.size() < shape.size()) throw NoShape();
  const std::size_t added = sizes.size() - shape.size();
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (sizes[added + i] == Size(-1)) sizes[added + i] = shape[i];
    if (!call.not_negative(sizes[added + i])) sizes[added + i] = Size::unknown();  // it may be -1, which keeps the axis
  }
  return {sizes};
}

Shapes slice(const ShapeCall& call) {
  Shape shape = call.first();
  Size& length = shape[call.axis("dim", shape.size(), 0)];
  const Size last = std::numeric_limits<std::int64_t>::max();
  const Size start = call.bound_index(call.integer("start", Size(0)), length);
  const Size bound = call.integer("end", last), step = call.integer("step", Size(1));
  const Size end = bound == last ? length : minimum({call.bound_index(bound, length), length});
  const Size count = call.at_least_0(end - start);
  length = step == Size(1) ? count : ceil_div(count, step);
  return {shape};
}

// Drops only axes that are certain to be 1: each tensor of a Program has one rank. The reader warns about other axes.
Shapes squeeze(const ShapeCall& call) {
  const Shape& shape = call.first();
  const bool all = !call.has("dim");
  const std::vector<std::size_t> axes = shape.empty() ? std::vector<std::size_t>() : call.axes("dim", shape.size());
  Shape result;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const bool named = all || std::ranges::find(axes, axis) != axes.end();
    if (!named || shape[axis] != Size(1)) result.push_back(shape[axis]);
  }
  return {result};
}

Shapes linalg_diagonal(const ShapeCall& call) { return shapes_of_view(call, ViewForm::diagonal); }

Shapes view_as_real(const ShapeCall& call) {
  Shape shape = call.first();
  shape.push_back(2);
  return {shape};
}

Shapes view_as_complex(const ShapeCall& call) {
  Shape shape = call.first();
  if (shape.empty()) throw NoShape();
  shape.pop_back();
  return {shape};
}

Shapes at_least_axes(const ShapeCall& call) {
  const auto axes = static_cast<std::size_t>(call.node().target.at(sizeof "aten::atleast_" - 1) - '0');
  if (call.first().size() < axes) throw NoShape();
  return {call.first()};
}

}  // namespace

const std::vector<Row>& view_rows() {
  static const std::vector<Row> rows = {
      {reshape, "reshape view _unsafe_view _reshape_alias"},
      {as_other, "reshape_as view_as expand_as"},
      {flatten, "flatten"},
      {ravel, "ravel"},
      {unflatten, "unflatten"},
      {expand, "expand"},
      {slice, "slice"},
      {squeeze, "squeeze"},
      {linalg_diagonal, "linalg_diagonal"},
      {view_as_real, "view_as_real"},
      {view_as_complex, "view_as_complex"},
      {at_least_axes, "atleast_1d atleast_2d atleast_3d"},
  };
  return rows;
}

}  // namespace whence::shapes
