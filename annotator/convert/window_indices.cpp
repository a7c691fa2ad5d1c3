#include "annotator/convert/window_indices.h"

#include <algorithm>

namespace whence::convert {

namespace {

Val index_constant(Ctx& c, const Ints& values, const Ints& shape) {
  return c.constant_tensor({DType::int64, shape, Bytes::copy_of(values.data(), values.size() * sizeof values[0])});
}

constexpr std::int64_t longest_window = std::int64_t{1} << 24U;  // offsets within one window, stored in the file
constexpr std::int64_t longest_table = std::int64_t{1} << 16U;   // indices of all windows, stored in the file

}  // namespace

Val window_indices(Ctx& c, Val x, std::int64_t axis, std::optional<std::int64_t> size, const Windows& windows,
                   IndexOrder order) {
  c.expect(!size || windows.reach() < *size, "windows must fit into the axis");
  if (windows.elements > longest_window) {
    c.refuse("windows of " + std::to_string(windows.elements) + " elements are not supported",
             "use as_strided or slices");
  }
  const bool elements_first = order == IndexOrder::elements_first;
  if (!size || windows.count(*size) > longest_table / std::max<std::int64_t>(windows.elements, 1)) {
    Ints offsets;
    for (std::int64_t i = 0; i < windows.elements; ++i) offsets.push_back(i * windows.dilation);
    // Windows begin at 0, step, ... up to the last one that fits.
    const Val past_last = size ? c.constant_int(*size - windows.reach())
                               : c.emit("Sub", {c.dim_of(x, axis), c.constant_int(windows.reach())});
    const Val starts = c.emit("Range", {c.constant_int(0), past_last, c.constant_int(windows.step)});
    if (elements_first) return c.emit("Add", {index_constant(c, offsets, {windows.elements, 1}), starts});
    // Not an Unsqueeze: if sizes are known, onnx's data propagation takes its result for the vector itself.
    return c.emit("Add", {c.emit("Reshape", {starts, c.constant_ints({-1, 1})}), c.constant_ints(offsets)});
  }
  const std::int64_t count = windows.count(*size);
  Ints indices;
  for (std::int64_t i = 0; i < count * windows.elements; ++i) {
    const std::int64_t element = elements_first ? i / count : i % windows.elements;
    const std::int64_t window = elements_first ? i % count : i / windows.elements;
    indices.push_back(element * windows.dilation + window * windows.step);
  }
  return index_constant(c, indices, elements_first ? Ints{windows.elements, count} : Ints{count, windows.elements});
}

}  // namespace whence::convert
