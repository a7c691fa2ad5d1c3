// Shape functions for convolutions, pooling, resizing and other operators on the last axes.
#include <algorithm>
#include <cmath>

#include "schema/shapes/shape_call.h"

namespace whence::shapes {

namespace {

// Returns the axes before the last `axes` ones: the channels, and the batch if there is one.
Shape outside(const Shape& shape, std::size_t axes) {
  if (shape.size() < axes) throw NoShape();
  return Shape(shape.begin(), shape.end() - static_cast<std::ptrdiff_t>(axes));
}

Shapes convolution(const ShapeCall& call) {
  const Shape &input = call.first(), &weight = call.tensor("weight");
  if (weight.size() < 3) throw NoShape();
  const std::size_t axes = weight.size() - 2;
  const std::vector<Size> stride = call.integers("stride", axes, {1}), dilation = call.integers("dilation", axes, {1});
  const auto* mode = call.has("padding") ? call.argument("padding").as<std::string>() : nullptr;
  const std::vector<Size> padding =
      mode == nullptr ? call.integers("padding", axes, {0}) : std::vector<Size>(axes, Size(0));
  const bool transposed = call.flag("transposed", call.node().target.find("transpose") != std::string::npos);
  const std::vector<Size> output_padding =
      transposed ? call.integers("output_padding", axes, {0}) : std::vector<Size>();
  Shape result = outside(input, axes + 1);
  result.push_back(transposed ? weight[1] * call.integer("groups", Size(1)) : weight[0]);
  for (std::size_t i = 0; i < axes; ++i) {
    const Size& length = input[input.size() - axes + i];
    const Size reach = dilation[i] * (weight[2 + i] - 1);  // from the first to the last element of the window
    if (transposed) {
      result.push_back((length - 1) * stride[i] - padding[i] * 2 + reach + output_padding[i] + 1);
    } else {
      result.push_back(
          mode != nullptr && *mode == "same" ? length : floor_div(length + padding[i] * 2 - reach - 1, stride[i]) + 1);
    }
  }
  return {result};
}

std::size_t axes_in_name(const std::string& target) {
  const std::size_t d = target.find('d', target.find_first_of("123"));
  if (d == std::string::npos || d == 0) throw NoShape();
  return static_cast<std::size_t>(target[d - 1] - '0');
}

// Returns the number of windows for ceil_mode. PyTorch drops the last window if it would start after the tensor.
Size rounded_up(const Size& length, const Size& padding, const Size& reach, const Size& stride) {
  const Size count = ceil_div(length + padding * 2 - reach - 1, stride) + 1;
  if ((stride + padding - 2 - reach).is_integer() && (stride + padding - 2 - reach).number() < 0) return count;
  const auto start = ((count - 1) * stride - length - padding).integer();
  if (!start) return Size::unknown();
  return *start >= 0 ? count - 1 : count;
}

Shapes pool(const ShapeCall& call) {
  const Shape& input = call.first();
  const std::size_t axes = axes_in_name(call.node().target);
  const std::vector<Size> kernel = call.integers("kernel_size", axes, {}),
                          stride = call.integers("stride", axes, kernel);
  const std::vector<Size> padding = call.integers("padding", axes, {0}),
                          dilation = call.integers("dilation", axes, {1});
  Shape result = outside(input, axes);
  for (std::size_t i = 0; i < axes; ++i) {
    const Size &length = input[input.size() - axes + i], reach = dilation[i] * (kernel[i] - 1);
    result.push_back(call.flag("ceil_mode", false) ? rounded_up(length, padding[i], reach, stride[i])
                                                   : floor_div(length + padding[i] * 2 - reach - 1, stride[i]) + 1);
  }
  return Shapes(std::max<std::size_t>(call.results(), 1), result);
}

Shapes adaptive_pool(const ShapeCall& call) {
  const Shape& input = call.first();
  const std::size_t axes = axes_in_name(call.node().target);
  const auto* output_size = call.argument("output_size").as<ArgumentList>();
  const std::vector<Size> sizes = call.integers("output_size", axes, {});
  Shape result = outside(input, axes);
  for (std::size_t i = 0; i < axes; ++i) {
    const bool kept = output_size != nullptr && output_size->at(output_size->size() == 1 ? 0 : i).is_none();
    result.push_back(kept ? input[input.size() - axes + i] : sizes[i]);
  }
  return Shapes(std::max<std::size_t>(call.results(), 1), result);
}

// Returns length * factor, rounded down. Known only for integer factors and for inverses of powers of 2.
Size scaled(const Size& length, double factor) {
  if (factor >= 1 && factor == std::floor(factor) && factor < 1e9) return length * static_cast<std::int64_t>(factor);
  const double inverse = factor > 0 ? 1 / factor : 0;
  const bool exact = inverse > 1 && inverse < 1e9 && std::exp2(std::round(std::log2(inverse))) == inverse;
  return exact ? floor_div(length, static_cast<std::int64_t>(inverse)) : Size::unknown();
}

Shapes resize(const ShapeCall& call) {
  const Shape& input = call.first();
  if (input.size() < 3) throw NoShape();
  const std::size_t axes = input.size() - 2;
  Shape result(input.begin(), input.begin() + 2);
  if (call.has("output_size")) {
    for (const Size& size : call.integers("output_size", axes, {})) result.push_back(size);
    return {result};
  }
  const auto* factors = call.argument("scale_factors").as<ArgumentList>();
  if (factors == nullptr || factors->size() != axes) throw NoShape();
  for (std::size_t i = 0; i < axes; ++i) {
    const auto* factor = (*factors)[i].as<double>();
    result.push_back(factor == nullptr ? Size::unknown() : scaled(input[2 + i], *factor));
  }
  return {result};
}

Shapes pixel_shuffle(const ShapeCall& call) {
  Shape shape = call.first();
  if (shape.size() < 3) throw NoShape();
  const Size factor = call.integer("upscale_factor");
  Size& channels = shape[shape.size() - 3];
  channels = floor_div(channels, factor * factor);
  for (std::size_t axis = shape.size() - 2; axis < shape.size(); ++axis) shape[axis] = shape[axis] * factor;
  return {shape};
}

Shapes grid_sample(const ShapeCall& call) {
  const Shape &input = call.first(), &grid = call.tensor("grid");
  if (grid.size() != input.size() || grid.size() < 3) throw NoShape();
  Shape result{input[0], input[1]};
  result.insert(result.end(), grid.begin() + 1, grid.end() - 1);
  return {result};
}

Shapes windows_as_columns(const ShapeCall& call) {
  const Shape& input = call.first();
  if (input.size() < 3) throw NoShape();
  const std::vector<Size> kernel = call.integers("kernel_size", 2, {}), dilation = call.integers("dilation", 2, {1});
  const std::vector<Size> padding = call.integers("padding", 2, {0}), stride = call.integers("stride", 2, {1});
  Shape result = outside(input, 3);
  Size count = 1;
  for (std::size_t i = 0; i < 2; ++i) {
    const Size& length = input[input.size() - 2 + i];
    count = count * (floor_div(length + padding[i] * 2 - dilation[i] * (kernel[i] - 1) - 1, stride[i]) + 1);
  }
  result.push_back(input[input.size() - 3] * kernel[0] * kernel[1]);
  result.push_back(count);
  return {result};
}

Shapes columns_as_windows(const ShapeCall& call) {
  const Shape& input = call.first();
  if (input.size() < 2) throw NoShape();
  const std::vector<Size> kernel = call.integers("kernel_size", 2, {}), output = call.integers("output_size", 2, {});
  Shape result = outside(input, 2);
  result.push_back(floor_div(input[input.size() - 2], kernel[0] * kernel[1]));
  result.insert(result.end(), output.begin(), output.end());
  return {result};
}

// Returns half of the axis; the other half is the gate.
Shapes gated(const ShapeCall& call) {
  Shape shape = call.first();
  Size& length = shape[call.axis("dim", shape.size(), -1)];
  length = floor_div(length, 2);
  return {shape};
}

}  // namespace

const std::vector<Row>& window_rows() {
  static const std::vector<Row> rows = {
      {convolution,
       "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution _convolution "
       "_convolution_mode"},
      {pool,
       "avg_pool1d avg_pool2d avg_pool3d max_pool1d max_pool2d max_pool3d max_pool1d_with_indices "
       "max_pool2d_with_indices max_pool3d_with_indices"},
      {adaptive_pool,
       "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d "
       "adaptive_max_pool3d"},
      {resize,
       "upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_linear1d upsample_bilinear2d "
       "upsample_trilinear3d upsample_bicubic2d _upsample_nearest_exact1d _upsample_nearest_exact2d "
       "_upsample_nearest_exact3d _upsample_bilinear2d_aa _upsample_bicubic2d_aa"},
      {pixel_shuffle, "pixel_shuffle"},
      {grid_sample, "grid_sampler grid_sampler_2d grid_sampler_3d"},
      {windows_as_columns, "im2col"},
      {columns_as_windows, "col2im"},
      {gated, "glu"},
  };
  return rows;
}

}  // namespace whence::shapes
