// Shape functions for joining, splitting, repeating, padding and indexing.
#include <algorithm>

#include "schema/shapes/shape_call.h"

namespace whence::shapes {

namespace {

Shapes cat(const ShapeCall& call) {
  Shapes parts = call.tensors("tensors");
  // PyTorch ignores empty one-dimensional tensors.
  if (parts.size() > 1) std::erase_if(parts, [](const Shape& part) { return part.size() == 1 && part[0] == Size(0); });
  if (parts.empty()) return {{0}};
  Shape result = parts.front();
  const std::size_t along = call.axis("dim", result.size(), 0);
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (parts[i].size() != result.size()) throw NoShape();
    for (std::size_t axis = 0; axis < result.size(); ++axis) {
      if (axis == along) {
        result[axis] = result[axis] + parts[i][axis];
      } else if (!result[axis].integer()) {
        result[axis] = parts[i][axis].integer() ? parts[i][axis] : result[axis];  // both must be equal
      }
    }
  }
  return {result};
}

Shapes stack(const ShapeCall& call) {
  const Shapes parts = call.tensors("tensors");
  Shape result = parts.front();
  for (const Shape& part : parts) {
    for (std::size_t axis = 0; axis < std::min(result.size(), part.size()); ++axis) {
      if (part[axis].integer()) result[axis] = part[axis];
    }
  }
  result.insert(result.begin() + static_cast<std::ptrdiff_t>(call.axis("dim", result.size() + 1, 0)),
                static_cast<std::int64_t>(parts.size()));
  return {result};
}

// Splits an axis into parts of this length. The last part is the remainder.
Shapes parts_of(const ShapeCall& call, const Size& length) {
  const std::size_t axis = call.axis("dim", call.first().size(), 0);
  Shapes parts(call.results(), call.first());
  Size remainder = call.first()[axis];
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    parts[i][axis] = length;
    remainder = remainder - length;
  }
  if (!parts.empty()) parts.back()[axis] = remainder;
  return parts;
}

Shapes split_with_sizes(const ShapeCall& call, const char* name) {
  const std::vector<Size> sizes = call.integers(name);
  const std::size_t axis = call.axis("dim", call.first().size(), 0);
  Shapes parts(sizes.size(), call.first());
  for (std::size_t i = 0; i < sizes.size(); ++i) parts[i][axis] = sizes[i];
  return parts;
}

Shapes with_sizes(const ShapeCall& call) { return split_with_sizes(call, "split_sizes"); }

Shapes split(const ShapeCall& call) {
  if (call.has("split_sizes")) return with_sizes(call);
  if (call.argument("split_size").as<ArgumentList>() != nullptr) return split_with_sizes(call, "split_size");
  return parts_of(call, call.integer("split_size"));
}

Shapes chunk(const ShapeCall& call) {
  const Shape& shape = call.first();
  return parts_of(call, ceil_div(shape[call.axis("dim", shape.size(), 0)], call.integer("chunks")));
}

// Splits an axis at indices, or into a number of parts, the first of which may be one element longer than the others.
Shapes tensor_split(const ShapeCall& call) {
  const std::size_t axis = call.axis("dim", call.first().size(), 0);
  const Size length = call.first()[axis];
  Shapes parts(call.results(), call.first());
  const bool by_indices = call.has("indices");
  const std::vector<Size> indices = by_indices ? call.integers("indices") : std::vector<Size>();
  const Size count = static_cast<std::int64_t>(parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (by_indices) {
      const Size start = i == 0 ? Size(0) : call.bound_index(indices.at(i - 1), length);
      const Size end = i == indices.size() ? length : minimum({call.bound_index(indices.at(i), length), length});
      parts[i][axis] = call.at_least_0(end - start);
    } else if (call.has("tensor_indices_or_sections")) {
      parts[i][axis] = Size::unknown();  // depends on the content of the argument
    } else {
      parts[i][axis] = floor_div(length + count - 1 - static_cast<std::int64_t>(i), count);
    }
  }
  return parts;
}

Shapes broadcast_all(const ShapeCall& call) {
  const Shapes shapes = call.tensors("tensors");
  Shape result = shapes.front();
  for (const Shape& shape : shapes) result = broadcast(result, shape);
  return Shapes(shapes.size(), result);
}

Shapes meshgrid(const ShapeCall& call) {
  const Shapes shapes = call.tensors("tensors");
  Shape result;
  for (const Shape& shape : shapes) result.push_back(shape.empty() ? Size(1) : shape[0]);
  const auto* indexing = call.has("indexing") ? call.argument("indexing").as<std::string>() : nullptr;
  if (indexing != nullptr && result.size() > 1 && *indexing == "xy") {
    std::swap(result[0], result[1]);
  }
  return Shapes(shapes.size(), result);
}

Shapes repeat(const ShapeCall& call) {
  Shape times = call.integers(call.has("dims") ? "dims" : "repeats"), shape = call.first();
  if (times.size() < shape.size()) times.insert(times.begin(), shape.size() - times.size(), 1);
  shape.insert(shape.begin(), times.size() - shape.size(), 1);
  for (std::size_t axis = 0; axis < shape.size(); ++axis) shape[axis] = shape[axis] * times[axis];
  return {shape};
}

// The length is a multiple for one known number of repeats. For a tensor of repeats it is their sum, which is known
// only from output_size.
Shapes repeat_interleave(const ShapeCall& call) {
  Shape shape = call.has("self") ? call.tensor("self") : throw NoShape();
  if (!call.has("dim")) shape = {product_of(shape)};
  Size& length = shape[call.axis("dim", shape.size(), 0)];
  const Size times = call.integer("repeats");
  length = call.node().overload == "self_int" || times.is_known() ? length * times
                                                                  : call.integer("output_size", Size::unknown());
  return {shape};
}

// The paddings are listed from the last axis to the first.
Shapes pad(const ShapeCall& call) {
  const std::vector<Size> pads = call.integers(call.has("pad") ? "pad" : "padding");
  Shape shape = call.first();
  if (pads.size() % 2 != 0 || pads.size() / 2 > shape.size()) throw NoShape();
  for (std::size_t i = 0; i < pads.size() / 2; ++i) {
    Size& length = shape[shape.size() - 1 - i];
    length = length + pads[2 * i] + pads[2 * i + 1];
  }
  return {shape};
}

Shapes index_select(const ShapeCall& call) {
  Shape shape = call.first();
  const Shape& index = call.tensor("index");
  if (!shape.empty()) shape[call.axis("dim", shape.size())] = index.empty() ? Size(1) : index[0];
  return {shape};
}

Shapes take_along_dim(const ShapeCall& call) {
  if (!call.has("dim")) return {{product_of(call.tensor("indices"))}};
  Shape shape = broadcast(call.first(), call.tensor("indices"));
  const std::size_t axis = call.axis("dim", shape.size());
  shape[axis] = call.tensor("indices")[axis];
  return {shape};
}

Shapes embedding(const ShapeCall& call) {
  Shape shape = call.tensor("indices");
  shape.push_back(call.tensor("weight").at(1));
  return {shape};
}

// The axes of adjacent indices stay in place; those of separated indices move to the front. A mask acts as one index
// for each of its axes, and the length of these indices is its number of true elements.
Shapes index(const ShapeCall& call) {
  const auto* indices = call.argument("indices").as<ArgumentList>();
  const Shape& shape = call.first();
  if (indices == nullptr) throw NoShape();
  Shape indexed, result;
  std::size_t axis = 0, position = 0;
  bool any = false, ended = false, adjacent = true;
  for (const Argument& index : *indices) {
    if (index.is_none()) {
      if (axis >= shape.size()) throw NoShape();
      result.push_back(shape[axis++]);
      ended |= any;
      continue;
    }
    const auto* value = index.as<ValueRef>();
    const Shape* of_index = value == nullptr ? nullptr : call.facts().shape_of(value->id);
    if (of_index == nullptr) throw NoShape();
    if (!any) position = result.size();
    adjacent &= !ended;
    any = true;
    const bool mask = call.is_mask(index);
    indexed = broadcast(indexed, mask ? Shape{Size::unknown()} : *of_index);
    axis += mask ? of_index->size() : 1;
  }
  while (axis < shape.size()) result.push_back(shape[axis++]);
  result.insert(result.begin() + static_cast<std::ptrdiff_t>(adjacent ? position : 0), indexed.begin(), indexed.end());
  return {result};
}

// The number of selected elements depends on data.
Shapes nonzero(const ShapeCall& call) { return {{Size::unknown(), static_cast<std::int64_t>(call.first().size())}}; }
Shapes masked_select(const ShapeCall&) { return {{Size::unknown()}}; }

// The results are the unique values, the index of each element's value, and the counts.
Shapes unique(const ShapeCall& call) {
  Shapes results(call.results(), {Size::unknown()});
  if (results.size() > 1) results[1] = call.flag("return_inverse", false) ? call.first() : Shape{0};
  return results;
}

Shapes nonzero_numpy(const ShapeCall& call) {
  return Shapes(std::max<std::size_t>(call.first().size(), 1), {Size::unknown()});
}

// where(condition) without values is nonzero(condition).
Shapes where(const ShapeCall& call) {
  if (call.node().arguments.size() == 1) return nonzero_numpy(call);
  Shape result;
  for (const Shape& shape : call.all_tensors()) result = broadcast(result, shape);
  return {result};
}

Shapes one_hot(const ShapeCall& call) {
  Shape shape = call.first();
  const Size classes = call.integer("num_classes", Size(-1));
  shape.push_back(call.negative(classes) ? Size::unknown() : classes);
  return {shape};
}

}  // namespace

const std::vector<Row>& join_rows() {
  static const std::vector<Row> rows = {
      {cat, "cat "},
      {stack, "stack"},
      {split, "split unsafe_split"},
      {with_sizes, "split_with_sizes unsafe_split_with_sizes"},
      {chunk, "chunk unsafe_chunk"},
      {tensor_split, "tensor_split"},
      {broadcast_all, "broadcast_tensors"},
      {meshgrid, "meshgrid"},
      {repeat, "repeat tile"},
      {repeat_interleave, "repeat_interleave"},
      {pad,
       "pad constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d "
       "replication_pad3d"},
      {index_select, "index_select"},
      {take_along_dim, "take_along_dim"},
      {embedding, "embedding"},
      {index, "index"},
      {nonzero, "nonzero argwhere"},
      {nonzero_numpy, "nonzero_numpy"},
      {masked_select, "masked_select"},
      {unique, "_unique _unique2"},
      {where, "where"},
      {one_hot, "one_hot"},
  };
  return rows;
}

}  // namespace whence::shapes
