// Operators that select, repeat, join or fill in elements: bytes are moved, never interpreted.
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "annotator/simplify/evaluate/operators.h"

namespace whence::simplify {

using graph::Attribute;

namespace {

TensorData made(DType dtype, Sizes shape, std::string bytes) {
  return {dtype, std::move(shape), Bytes::owned(std::move(bytes))};
}

const char* bytes_of(const TensorData& data) { return as_text(data.bytes.in_memory().value()).data(); }

void append_element(std::string& bytes, const TensorData& from, std::int64_t at) {
  const std::size_t width = size_of(from.dtype);
  bytes.append(bytes_of(from) + static_cast<std::size_t>(at) * width, width);
}

// Copies the elements of `from` that a view with this shape, these strides and this start reads.
TensorData viewed(const TensorData& from, const Sizes& shape, const Sizes& strides, std::int64_t start) {
  std::string bytes;
  bytes.reserve(static_cast<std::size_t>(count_of(shape)) * size_of(from.dtype));
  for_each_offset(shape, strides, start, [&](std::int64_t offset) { append_element(bytes, from, offset); });
  return made(from.dtype, shape, std::move(bytes));
}

// Returns `index` counted from the front; nullopt if it is out of range, an error that runtimes report.
std::optional<std::int64_t> normalized_index(std::int64_t index, std::int64_t size) {
  if (index < 0) index += size;
  return index < 0 || index >= size ? std::nullopt : std::optional(index);
}

// Returns the number of steps of a range; nullopt if it never ends or exceeds 2^30.
std::optional<std::int64_t> steps(double start, double limit, double delta) {
  if (delta == 0 || !std::isfinite(start) || !std::isfinite(limit) || !std::isfinite(delta)) return std::nullopt;
  const double count = std::ceil((limit - start) / delta);
  constexpr double max_count = 1 << 30;
  if (count > max_count) return std::nullopt;
  return static_cast<std::int64_t>(std::max(count, 0.0));
}

template <class Number>
std::optional<TensorData> range(const Evaluation& e) {
  const Number start = numbers_of<Number>(e.input(0)).front(), limit = numbers_of<Number>(e.input(1)).front();
  const Number delta = numbers_of<Number>(e.input(2)).front();
  const auto count = steps(static_cast<double>(start), static_cast<double>(limit), static_cast<double>(delta));
  const DType dtype = e.input(0).dtype;
  if (!count || !e.fits(dtype, {*count})) return std::nullopt;
  std::vector<Number> numbers;
  for (std::int64_t i = 0; i < *count; ++i) numbers.push_back(start + static_cast<Number>(i) * delta);
  return tensor_of(dtype, {*count}, numbers);
}

// The byte offsets of the blocks that the index tuples of GatherND and ScatterND address: `indices` [..., depth] into
// the first `depth` axes of `shape`.
struct Blocks {
  std::size_t size = 0;  // bytes per block
  std::vector<std::size_t> starts;
};

std::optional<Blocks> blocks_of(const TensorData& data, const TensorData& indices) {
  if (indices.shape.empty() || indices.dtype != DType::int64) return std::nullopt;
  const auto depth = static_cast<std::size_t>(indices.shape.back());
  if (depth == 0 || depth > data.shape.size()) return std::nullopt;
  const Sizes strides = strides_of(data.shape), flat = numbers_of<std::int64_t>(indices);
  Blocks blocks{static_cast<std::size_t>(strides[depth - 1]) * size_of(data.dtype), {}};
  for (std::size_t i = 0; i < flat.size(); i += depth) {
    std::int64_t offset = 0;
    for (std::size_t axis = 0; axis < depth; ++axis) {
      const auto at = normalized_index(flat[i + axis], data.shape[axis]);
      if (!at) return std::nullopt;
      offset += *at * strides[axis];
    }
    blocks.starts.push_back(static_cast<std::size_t>(offset) * size_of(data.dtype));
  }
  return blocks;
}

struct Span {
  std::int64_t first, count, step;
};

// Computes one axis of Slice; ONNX clamps starts and ends.
std::optional<Span> span_of(std::int64_t start, std::int64_t end, std::int64_t step, std::int64_t size) {
  if (step == 0) return std::nullopt;
  const std::int64_t lowest = step > 0 ? 0 : -1, highest = step > 0 ? size : size - 1;
  const auto clamped = [&](std::int64_t at) { return std::clamp(at < 0 ? at + size : at, lowest, highest); };
  const std::int64_t first = std::clamp<std::int64_t>(start < 0 ? start + size : start, 0, highest);
  const std::int64_t last = clamped(end);
  if (step > 0) return Span{first, last > first ? (last - first - 1) / step + 1 : 0, step};
  // Computed unsigned, because the smallest step has no negative counterpart.
  const auto stride = static_cast<std::uint64_t>(-(step + 1)) + 1;
  const std::int64_t count =
      first > last ? static_cast<std::int64_t>(static_cast<std::uint64_t>(first - last - 1) / stride) + 1 : 0;
  return Span{first, count, count > 1 ? step : -1};
}

}  // namespace

std::optional<TensorData> evaluate_concat(const Evaluation& e) {
  const TensorData& first = e.input(0);
  const auto axis = axis_of(e.node.int_attribute("axis", 0), first.shape.size());
  if (!axis) return std::nullopt;
  Sizes shape = first.shape;
  shape[*axis] = 0;
  for (const TensorData* piece : e.inputs) {
    if (piece == nullptr || piece->dtype != first.dtype || piece->shape.size() != shape.size()) return std::nullopt;
    shape[*axis] += piece->shape[*axis];
  }
  if (!e.fits(first.dtype, shape)) return std::nullopt;
  const std::int64_t rows = count_of(Sizes(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(*axis)));
  std::string bytes;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (const TensorData* piece : e.inputs) {
      const std::size_t size = piece->bytes.size() / static_cast<std::size_t>(rows);
      bytes.append(bytes_of(*piece) + static_cast<std::size_t>(row) * size, size);
    }
  }
  if (bytes.size() != static_cast<std::size_t>(count_of(shape)) * size_of(first.dtype)) return std::nullopt;
  return made(first.dtype, shape, std::move(bytes));
}

std::optional<TensorData> evaluate_constant_of_shape(const Evaluation& e) {
  const auto shape = e.integers(0);
  const float zero = 0;
  TensorData element{DType::float32, {1}, Bytes::copy_of(&zero, sizeof zero)};
  if (const Attribute* value = e.node.find("value")) element = std::get<TensorData>(value->value);
  if (!shape || element.bytes.size() != size_of(element.dtype) || !e.fits(element.dtype, *shape)) return std::nullopt;
  return viewed(element, *shape, Sizes(shape->size(), 0), 0);
}

std::optional<TensorData> evaluate_expand(const Evaluation& e) {
  const auto target = e.integers(1);
  const auto shape = target ? broadcast(e.input(0).shape, *target) : std::nullopt;
  if (!shape || !e.fits(e.input(0).dtype, *shape)) return std::nullopt;
  return viewed(e.input(0), *shape, broadcast_strides(e.input(0).shape, *shape), 0);
}

// Supports constant padding. Negative pads, which crop, are left to the runtime.
std::optional<TensorData> evaluate_pad(const Evaluation& e) {
  const TensorData& x = e.input(0);
  const auto pads = e.integers(1);
  const std::size_t rank = x.shape.size(), width = size_of(x.dtype);
  const Attribute* mode = e.node.find("mode");
  const bool constant = mode == nullptr || std::get<std::string>(mode->value) == "constant";
  if (!constant || !pads || pads->size() != 2 * rank || e.has(3)) return std::nullopt;
  if (e.has(2) && (e.input(2).dtype != x.dtype || e.input(2).element_count() != 1)) return std::nullopt;
  if (std::ranges::any_of(*pads, [](std::int64_t pad) { return pad < 0; })) return std::nullopt;
  Sizes shape = x.shape;
  for (std::size_t i = 0; i < rank; ++i) shape[i] += (*pads)[i] + (*pads)[rank + i];
  if (!e.fits(x.dtype, shape)) return std::nullopt;
  const std::string element = e.has(2) ? std::string(bytes_of(e.input(2)), width) : std::string(width, '\0');
  std::string bytes;
  for (std::int64_t i = 0; i < count_of(shape); ++i) bytes += element;
  const Sizes strides = strides_of(shape);
  std::int64_t start = 0;
  for (std::size_t i = 0; i < rank; ++i) start += (*pads)[i] * strides[i];
  const char* from = bytes_of(x);
  for_each_offset(x.shape, strides, start, [&](std::int64_t at) {
    bytes.replace(static_cast<std::size_t>(at) * width, width, from, width);
    from += width;
  });
  return made(x.dtype, shape, std::move(bytes));
}

std::optional<TensorData> evaluate_gather(const Evaluation& e) {
  const TensorData &table = e.input(0), &indices = e.input(1);
  const auto axis = axis_of(e.node.int_attribute("axis", 0), table.shape.size());
  if (!axis || !has_integer_form(indices.dtype)) return std::nullopt;
  const auto split = table.shape.begin() + static_cast<std::ptrdiff_t>(*axis);
  Sizes shape(table.shape.begin(), split);
  const std::int64_t rows = count_of(shape), size = *split;
  shape.insert(shape.end(), indices.shape.begin(), indices.shape.end());
  shape.insert(shape.end(), split + 1, table.shape.end());
  if (!e.fits(table.dtype, shape)) return std::nullopt;
  const std::size_t block =
      static_cast<std::size_t>(count_of(Sizes(split + 1, table.shape.end()))) * size_of(table.dtype);
  const Sizes positions = numbers_of<std::int64_t>(indices);
  std::string bytes;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (const std::int64_t index : positions) {
      const auto at = normalized_index(index, size);
      if (!at) return std::nullopt;
      bytes.append(bytes_of(table) + static_cast<std::size_t>(row * size + *at) * block, block);
    }
  }
  return made(table.dtype, shape, std::move(bytes));
}

std::optional<TensorData> evaluate_gather_elements(const Evaluation& e) {
  const TensorData &from = e.input(0), &indices = e.input(1);
  const auto axis = axis_of(e.node.int_attribute("axis", 0), from.shape.size());
  if (!axis || !has_integer_form(indices.dtype) || indices.shape.size() != from.shape.size()) return std::nullopt;
  if (!e.fits(from.dtype, indices.shape)) return std::nullopt;
  Sizes strides = strides_of(from.shape);
  const std::int64_t step = strides[*axis];
  strides[*axis] = 0;  // the index selects the position along this axis
  for (std::size_t i = 0; i < indices.shape.size(); ++i) {
    if (i != *axis && indices.shape[i] > from.shape[i]) return std::nullopt;
  }
  const Sizes positions = numbers_of<std::int64_t>(indices);
  std::string bytes;
  bool outside = false;
  auto index = positions.begin();
  for_each_offset(indices.shape, strides, 0, [&](std::int64_t offset) {
    const auto at = normalized_index(*index++, from.shape[*axis]);
    outside |= !at;
    if (at) append_element(bytes, from, offset + *at * step);
  });
  if (outside) return std::nullopt;
  return made(from.dtype, indices.shape, std::move(bytes));
}

std::optional<TensorData> evaluate_gather_nd(const Evaluation& e) {
  const TensorData &from = e.input(0), &indices = e.input(1);
  const auto blocks = blocks_of(from, indices);
  if (!blocks || e.node.int_attribute("batch_dims", 0) != 0) return std::nullopt;
  Sizes shape(indices.shape.begin(), indices.shape.end() - 1);
  shape.insert(shape.end(), from.shape.begin() + indices.shape.back(), from.shape.end());
  if (!e.fits(from.dtype, shape)) return std::nullopt;
  std::string bytes;
  for (const std::size_t start : blocks->starts) bytes.append(bytes_of(from) + start, blocks->size);
  return made(from.dtype, shape, std::move(bytes));
}

// Returns the output sizes of a Resize, given for all axes or for some.
std::optional<Sizes> resized_shape(const Evaluation& e) {
  const auto sizes = e.has(3) ? e.integers(3) : std::nullopt;
  if (!sizes) return std::nullopt;
  const Attribute* axes = e.node.find("axes");
  if (axes == nullptr) return sizes->size() == e.input(0).shape.size() ? sizes : std::nullopt;
  const auto& numbers = std::get<Sizes>(axes->value);
  Sizes shape = e.input(0).shape;
  for (std::size_t i = 0; i < numbers.size() && i < sizes->size(); ++i) {
    const auto axis = axis_of(numbers[i], shape.size());
    if (!axis) return std::nullopt;
    shape[*axis] = (*sizes)[i];
  }
  return shape;
}

// Implements PyTorch's nearest mode: the element at floor(position / scale) of each axis. With the sizes of the input,
// every mode gives the input's elements.
std::optional<TensorData> evaluate_resize(const Evaluation& e) {
  const TensorData& x = e.input(0);
  const auto is = [&](const char* name, std::string_view text) {
    const Attribute* attribute = e.node.find(name);
    return attribute != nullptr && std::get<std::string>(attribute->value) == text;
  };
  const bool plain =
      is("mode", "nearest") && is("nearest_mode", "floor") && is("coordinate_transformation_mode", "asymmetric");
  const auto shape = resized_shape(e);
  const bool crops = is("coordinate_transformation_mode", "tf_crop_and_resize");
  if (shape == x.shape && !crops && e.fits(x.dtype, x.shape)) return TensorData{x.dtype, x.shape, x.bytes};
  if (!plain || !shape || x.element_count() == 0 || !e.fits(x.dtype, *shape)) return std::nullopt;
  const Sizes strides = strides_of(x.shape);
  const std::size_t width = size_of(x.dtype);
  std::string bytes;
  for_each_index(*shape, [&](const Sizes& index) {
    std::int64_t at = 0;
    for (std::size_t i = 0; i < index.size(); ++i) {
      const float scale =
          static_cast<float>((*shape)[i]) / static_cast<float>(x.shape[i]);  // in float32, like runtimes
      const auto nearest = static_cast<std::int64_t>(std::floor(static_cast<float>(index[i]) / scale));
      at += std::min(nearest, x.shape[i] - 1) * strides[i];
    }
    bytes.append(bytes_of(x) + static_cast<std::size_t>(at) * width, width);
  });
  return made(x.dtype, *shape, std::move(bytes));
}

std::optional<TensorData> evaluate_scatter_nd(const Evaluation& e) {
  const TensorData &data = e.input(0), &updates = e.input(2);
  const auto blocks = blocks_of(data, e.input(1));
  if (!blocks || e.node.find("reduction") != nullptr || !e.fits(data.dtype, data.shape)) return std::nullopt;
  if (updates.dtype != data.dtype || updates.bytes.size() != blocks->size * blocks->starts.size()) return std::nullopt;
  std::string bytes(bytes_of(data), data.bytes.size());
  std::size_t from = 0;
  for (const std::size_t start : blocks->starts) {
    std::memcpy(bytes.data() + start, bytes_of(updates) + from, blocks->size);
    from += blocks->size;
  }
  return made(data.dtype, data.shape, std::move(bytes));
}

std::optional<TensorData> evaluate_range(const Evaluation& e) {
  const DType dtype = e.input(0).dtype;
  for (std::size_t i = 0; i < 3; ++i) {
    if (e.input(i).dtype != dtype || e.input(i).element_count() != 1) return std::nullopt;
  }
  if (has_floating_form(dtype)) return range<double>(e);
  return has_integer_form(dtype) ? range<std::int64_t>(e) : std::nullopt;
}

std::optional<TensorData> evaluate_slice(const Evaluation& e) {
  const TensorData& from = e.input(0);
  const auto starts = e.integers(1), ends = e.integers(2);
  if (!starts || !ends || ends->size() != starts->size()) return std::nullopt;
  Sizes axes(starts->size());
  for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<std::int64_t>(i);
  const auto given_axes = e.has(3) ? e.integers(3) : axes;
  const auto given_steps = e.has(4) ? e.integers(4) : Sizes(axes.size(), 1);
  if (!given_axes || !given_steps || given_axes->size() != axes.size() || given_steps->size() != axes.size()) {
    return std::nullopt;
  }
  Sizes shape = from.shape, strides = strides_of(from.shape);
  std::int64_t start = 0;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = axis_of((*given_axes)[i], shape.size());
    if (!axis || from.shape[*axis] == 0) return std::nullopt;
    const auto span = span_of((*starts)[i], (*ends)[i], (*given_steps)[i], from.shape[*axis]);
    if (!span) return std::nullopt;
    const std::int64_t stride = strides_of(from.shape)[*axis];
    start += span->first * stride;
    shape[*axis] = span->count;
    strides[*axis] = span->count > 1 ? span->step * stride : 0;
  }
  if (!e.fits(from.dtype, shape)) return std::nullopt;
  return viewed(from, shape, strides, start);
}

std::optional<TensorData> evaluate_tile(const Evaluation& e) {
  const TensorData& from = e.input(0);
  const auto repeats = e.integers(1);
  if (!repeats || repeats->size() != from.shape.size()) return std::nullopt;
  Sizes shape, view, strides;
  const Sizes own = strides_of(from.shape);
  for (std::size_t i = 0; i < own.size(); ++i) {
    std::int64_t size = 0;
    if ((*repeats)[i] < 0 || __builtin_mul_overflow((*repeats)[i], from.shape[i], &size)) return std::nullopt;
    shape.push_back(size);
    view.insert(view.end(), {(*repeats)[i], from.shape[i]});
    strides.insert(strides.end(), {0, own[i]});
  }
  if (!e.fits(from.dtype, shape)) return std::nullopt;
  TensorData result = viewed(from, view, strides, 0);
  result.shape = shape;
  return result;
}

std::optional<TensorData> evaluate_trilu(const Evaluation& e) {
  const TensorData& from = e.input(0);
  if (from.shape.size() < 2 || !e.fits(from.dtype, from.shape)) return std::nullopt;
  const auto k = e.has(1) ? single_integer(e.input(1)) : 0;
  if (!k) return std::nullopt;
  const bool upper = e.node.int_attribute("upper", 1) != 0;
  const std::int64_t rows = from.shape.end()[-2], columns = from.shape.back();
  const std::size_t width = size_of(from.dtype);
  std::string bytes(bytes_of(from), from.bytes.size());
  for (std::int64_t i = 0; i < from.element_count(); ++i) {
    const std::int64_t above = i % columns - i / columns % rows;  // diagonals above the main one
    const bool stays = upper ? above >= *k : above <= *k;
    if (!stays) std::memset(bytes.data() + static_cast<std::size_t>(i) * width, 0, width);
  }
  return made(from.dtype, from.shape, std::move(bytes));
}

std::optional<TensorData> evaluate_where(const Evaluation& e) {
  const TensorData &condition = e.input(0), &a = e.input(1), &b = e.input(2);
  auto shape = broadcast(a.shape, b.shape);
  if (shape) shape = broadcast(*shape, condition.shape);
  if (condition.dtype != DType::boolean || a.dtype != b.dtype || !shape || !e.fits(a.dtype, *shape))
    return std::nullopt;
  const TensorData mask = viewed(condition, *shape, broadcast_strides(condition.shape, *shape), 0);
  TensorData result = viewed(b, *shape, broadcast_strides(b.shape, *shape), 0);
  const TensorData other = viewed(a, *shape, broadcast_strides(a.shape, *shape), 0);
  const std::size_t width = size_of(a.dtype);
  std::string bytes(bytes_of(result), result.bytes.size());
  for (std::int64_t i = 0; i < result.element_count(); ++i) {
    const std::size_t at = static_cast<std::size_t>(i) * width;
    if (bytes_of(mask)[i] != 0) std::memcpy(bytes.data() + at, bytes_of(other) + at, width);
  }
  return made(a.dtype, *shape, std::move(bytes));
}

}  // namespace whence::simplify
