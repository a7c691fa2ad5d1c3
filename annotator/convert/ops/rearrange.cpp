// Moves pixels between space and channels: pixel_shuffle, channel_shuffle, im2col (unfold), col2im (fold).
#include <optional>
#include <utility>
#include <vector>

#include "annotator/convert/broadcast.h"
#include "annotator/convert/ops/families.h"
#include "annotator/convert/window_indices.h"
#include "schema/element_count.h"

namespace whence::convert {
namespace {

std::int64_t channels(Ctx& c, Val x, std::int64_t axis) {
  if (const auto size = c.static_dim(x, axis)) return *size;
  c.refuse("the number of channels is dynamic", "keep the axis of the channels fixed when exporting");
}

// Runs `body` on [N, C, H, W], for any axes before the last three of `self`.
template <class Body>
void as_images(Ctx& c, const Body& body) {
  const Val x = c.tensor("self");
  const int rank = c.rank(x);
  if (rank == 4) return c.yield(body(x));
  if (rank == 3) return c.yield(c.squeeze(body(c.unsqueeze(x, {0})), {0}));
  std::vector<Size> shape{std::int64_t{-1}};
  for (int axis = rank - 3; axis < rank; ++axis) {
    const auto size = c.static_dim(x, axis);
    if (!size)
      c.refuse("an image of dynamic size with more than one leading axis is not supported",
               "flatten the leading axes first");
    shape.emplace_back(*size);
  }
  c.yield(c.reshape_to_output(body(c.reshape(x, shape))));
}

// Returns true if ONNX's own operator can be used: runtimes have kernels only for floating dtypes.
bool has_own_operator(Ctx& c) { return is_floating(c.dtype(c.tensor("self"))); }

// Splits the last three axes of `self` into `parts`, permutes these by `order`, which counts them from 0, and joins
// them to the result's axes.
void rearrange(Ctx& c, const std::vector<Size>& parts, const Ints& order) {
  const Val x = c.tensor("self");
  const int leading = c.rank(x) - 3;
  std::vector<Size> shape;
  Ints permutation;
  for (int axis = 0; axis < leading; ++axis) {
    shape.push_back(size_of_axis(c, x, axis));
    permutation.push_back(axis);
  }
  shape.insert(shape.end(), parts.begin(), parts.end());
  for (const std::int64_t axis : order) permutation.push_back(leading + axis);
  c.yield(c.reshape_to_output(c.transpose(c.reshape(x, shape), permutation)));
}

Size divided(Ctx& c, const Size& size, std::int64_t by) {
  if (const auto known = c.static_size(size)) return *known / by;
  return c.emit("Div", {c.to_scalar_value(size), c.constant_int(by)});
}

// [*, C * r * r, H, W] -> [*, C, H * r, W * r]
void pixel_shuffle(Ctx& c) {
  const std::int64_t factor = c.count("upscale_factor");
  if (!has_own_operator(c)) {
    const Val x = c.tensor("self");
    const Size count = divided(c, size_of_axis(c, x, -3), factor * factor);
    const std::vector<Size> parts{count, factor, factor, size_of_axis(c, x, -2), size_of_axis(c, x, -1)};
    return rearrange(c, parts, {0, 3, 1, 4, 2});
  }
  as_images(c, [&](Val x) { return c.emit("DepthToSpace", {x}, {{"blocksize", factor}, {"mode", "CRD"}}); });
}

// Returns the channels of SpaceToDepth in PyTorch's order: SpaceToDepth groups them by position in the block.
Val unshuffled_order(Ctx& c, std::int64_t block) {
  const Val x = c.tensor("self");
  const std::int64_t axis = c.rank(x) - 3;
  Ints order;
  const auto count = c.static_dim(x, axis);
  order.reserve(c.table_size({count.value_or(1), block}));
  if (!count) {
    for (std::int64_t position = 0; position < block; ++position) order.push_back(position);
    const Val channels = c.dim_of(x, axis);
    const Val each = c.emit("Range", {c.constant_int(0), channels, c.constant_int(1)});
    const Val starts = c.emit("Mul", {c.constant_ints(order), channels});
    return c.emit("Reshape", {c.emit("Add", {c.unsqueeze(each, {1}), starts}), c.constant_ints({-1})});
  }
  for (std::int64_t channel = 0; channel < *count; ++channel) {
    for (std::int64_t position = 0; position < block; ++position) order.push_back(position * *count + channel);
  }
  return c.constant_ints(order);
}

// [*, C, H * r, W * r] -> [*, C * r * r, H, W]. SpaceToDepth puts the position in the block before the channel, PyTorch
// after it, so the channels are gathered in PyTorch's order.
void pixel_unshuffle(Ctx& c) {
  const std::int64_t factor = c.count("downscale_factor");
  if (!has_own_operator(c)) {
    const Val x = c.tensor("self");
    const Size height = divided(c, size_of_axis(c, x, -2), factor), width = divided(c, size_of_axis(c, x, -1), factor);
    return rearrange(c, {size_of_axis(c, x, -3), height, factor, width, factor}, {0, 2, 4, 1, 3});
  }
  as_images(c, [&](Val x) {
    const Val blocks = c.emit("SpaceToDepth", {x}, {{"blocksize", factor}});
    if (c.static_dim(c.tensor("self"), -3) == std::int64_t{1}) return blocks;
    return c.emit("Gather", {blocks, unshuffled_order(c, factor * factor)}, {{"axis", 1}});
  });
}

// Reads the channels [groups, C / groups] column by column.
void channel_shuffle(Ctx& c) {
  const Val x = c.tensor("self");
  const std::int64_t count = channels(c, x, 1), groups = c.count("groups"), each = count / groups;
  c.expect(count % groups == 0, "the number of channels must be a multiple of groups");
  Ints order;
  order.reserve(c.table_size({count}));
  for (std::int64_t i = 0; i < each; ++i) {
    for (std::int64_t group = 0; group < groups; ++group) order.push_back(group * each + i);
  }
  c.yield(c.emit("Gather", {x, c.constant_ints(order)}, {{"axis", 1}}));
}

// [N, C, H, W] -> [N, C * kh * kw, blocks]: gathers rows, then columns, [N, C, kh, bh, kw, bw], and reorders the axes.
void im2col(Ctx& c) {
  const Val x = c.tensor("self");
  const Ints kernel = c.counts("kernel_size", 2), dilation = c.counts("dilation", 2);
  const Ints padding = c.counts("padding", 2, 0), stride = c.counts("stride", 2);
  const bool batched = c.rank(x) == 4;
  c.expect(batched || c.rank(x) == 3, "the input must have channels, rows and columns");
  const std::int64_t count = channels(c, x, -3);
  Val y = batched ? x : c.unsqueeze(x, {0});
  if (padding != Ints{0, 0}) {
    y = c.emit("Pad", {y, c.constant_ints({0, 0, padding[0], padding[1], 0, 0, padding[0], padding[1]})});
  }
  const Val padded = y;
  std::optional<std::int64_t> blocks = 1;
  for (const std::int64_t i : {0, 1}) {
    const Windows windows{kernel[i], dilation[i], stride[i]};
    auto size = c.static_dim(x, i - 2);
    if (size) *size += 2 * padding[i];
    const Val indices = window_indices(c, padded, 2 + i, size, windows, IndexOrder::elements_first);
    blocks = blocks && size ? std::optional(whence::element_count(Ints{*blocks, windows.count(*size)})) : std::nullopt;
    y = c.emit("Gather", {y, indices}, {{"axis", 2 + 2 * i}});
  }
  y = c.transpose(y, {0, 1, 2, 4, 3, 5});
  Ints shape{whence::element_count(Ints{count, kernel[0], kernel[1]}), blocks.value_or(-1)};
  if (batched) shape.insert(shape.begin(), 0);
  c.yield(c.emit("Reshape", {y, c.constant_ints(shape)}));
}

// [N, C * kh * kw, blocks] -> [N, C, H, W]; overlapping blocks are summed.
void col2im(Ctx& c) {
  if (c.opset() < 18) c.refuse("fold needs opset 18", "export with --opset 18 or newer");
  const Val x = c.tensor("self");
  const bool batched = c.rank(x) == 3;
  const Ints padding = c.counts("padding", 2, 0);
  const Val y = c.emit("Col2Im",
                       {batched ? x : c.unsqueeze(x, {0}), c.to_vector(c.sizes("output_size")),
                        c.constant_ints(c.counts("kernel_size", 2))},
                       {{"dilations", c.counts("dilation", 2)},
                        {"pads", Ints{padding[0], padding[1], padding[0], padding[1]}},
                        {"strides", c.counts("stride", 2)}});
  c.yield(batched ? y : c.squeeze(y, {0}));
}

const OpEntry kRearrange[] = {
    {"aten::pixel_shuffle(Tensor self, int upscale_factor) -> Tensor", pixel_shuffle},
    {"aten::pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor", pixel_unshuffle},
    {"aten::channel_shuffle(Tensor self, SymInt groups) -> Tensor", channel_shuffle},
    {"aten::native_channel_shuffle(Tensor self, SymInt groups) -> Tensor", channel_shuffle},
    {"aten::im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor", im2col},
    {"aten::col2im(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, int[2] padding, "
     "int[2] stride) -> Tensor",
     col2im},
};

}  // namespace

OpFamily rearrange_ops() { return kRearrange; }

}  // namespace whence::convert
