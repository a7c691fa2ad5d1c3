// deform_conv2d: a convolution that reads its input at shifted positions.
#include <cmath>

#include "recorder/detection/kernels.h"

namespace whence::recorder::detection {

namespace {

// Interpolates between the pixels of a channel [H, W]; pixels outside are 0.
template <class Number>
Number sample(const Number* pixels, std::int64_t height, std::int64_t width, Number y, Number x) {
  if (!(y > -1 && y < static_cast<Number>(height) && x > -1 && x < static_cast<Number>(width))) return 0;
  const auto top = static_cast<std::int64_t>(std::floor(y)), left = static_cast<std::int64_t>(std::floor(x));
  const Number down = y - static_cast<Number>(top), along = x - static_cast<Number>(left);
  const auto pixel = [&](std::int64_t row, std::int64_t column) {
    return row < 0 || row >= height || column < 0 || column >= width ? Number(0) : pixels[row * width + column];
  };
  return (1 - down) * ((1 - along) * pixel(top, left) + along * pixel(top, left + 1)) +
         down * ((1 - along) * pixel(top + 1, left) + along * pixel(top + 1, left + 1));
}

}  // namespace

at::Tensor deform_conv2d(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& offset,
                         const at::Tensor& mask, const at::Tensor& bias, std::int64_t stride_h, std::int64_t stride_w,
                         std::int64_t pad_h, std::int64_t pad_w, std::int64_t dilation_h, std::int64_t dilation_w,
                         std::int64_t groups, std::int64_t offset_groups, bool use_mask) {
  TORCH_CHECK(input.dim() == 4 && weight.dim() == 4 && offset.dim() == 4,
              "deform_conv2d: input, weight and offset must have four axes");
  const std::int64_t batch = input.size(0), channels = input.size(1), height = input.size(2), width = input.size(3);
  const std::int64_t kernel_h = weight.size(2), kernel_w = weight.size(3), points = kernel_h * kernel_w;
  const std::int64_t out_h = (height + 2 * pad_h - (dilation_h * (kernel_h - 1) + 1)) / stride_h + 1;
  const std::int64_t out_w = (width + 2 * pad_w - (dilation_w * (kernel_w - 1) + 1)) / stride_w + 1;
  TORCH_CHECK(groups > 0 && weight.size(1) * groups == channels && weight.size(0) % groups == 0,
              "deform_conv2d: weight ", weight.sizes(), " does not fit ", channels, " channels in ", groups, " groups");
  TORCH_CHECK(offset_groups > 0 && channels % offset_groups == 0, "deform_conv2d: ", channels,
              " channels do not divide into ", offset_groups, " offset groups");
  const std::array<std::int64_t, 4> offsets{batch, 2 * offset_groups * points, out_h, out_w};
  const std::array<std::int64_t, 4> weights{batch, offset_groups * points, out_h, out_w};
  TORCH_CHECK(offset.sizes() == at::IntArrayRef(offsets), "deform_conv2d: offset is ", offset.sizes(), ", not ",
              at::IntArrayRef(offsets));
  TORCH_CHECK(!use_mask || mask.sizes() == at::IntArrayRef(weights), "deform_conv2d: mask is ", mask.sizes(), ", not ",
              at::IntArrayRef(weights));

  const at::ScalarType wide = input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor images = input.to(wide).contiguous(), shifts = offset.to(wide).contiguous();
  const at::Tensor factors = use_mask ? mask.to(wide).contiguous() : at::Tensor();
  // Collects the inputs of each result pixel as a column, for a matrix product with the weight.
  at::Tensor columns = at::empty({batch, channels, points, out_h * out_w}, wide);
  AT_DISPATCH_FLOATING_TYPES(wide, "deform_conv2d", [&] {
    scalar_t* out = columns.mutable_data_ptr<scalar_t>();
    const scalar_t* shift = shifts.const_data_ptr<scalar_t>();
    const scalar_t* factor = use_mask ? factors.const_data_ptr<scalar_t>() : nullptr;
    const std::int64_t area = out_h * out_w;
    for (std::int64_t plane = 0; plane < batch * channels; ++plane) {
      const scalar_t* pixels = images.const_data_ptr<scalar_t>() + plane * height * width;
      const std::int64_t group = plane % channels / (channels / offset_groups);
      const std::int64_t first = (plane / channels * offset_groups + group) * points;  // the group's first point
      for (std::int64_t point = 0; point < points; ++point) {
        const scalar_t* down = shift + 2 * (first + point) * area;
        for (std::int64_t pixel = 0; pixel < area; ++pixel) {
          const std::int64_t row = pixel / out_w * stride_h - pad_h + point / kernel_w * dilation_h;
          const std::int64_t column = pixel % out_w * stride_w - pad_w + point % kernel_w * dilation_w;
          const scalar_t value = sample(pixels, height, width, static_cast<scalar_t>(row) + down[pixel],
                                        static_cast<scalar_t>(column) + down[area + pixel]);
          *out++ = factor == nullptr ? value : value * factor[(first + point) * area + pixel];
        }
      }
    }
  });
  const std::int64_t outputs = weight.size(0);
  const at::Tensor kernels = weight.to(wide).reshape({groups, outputs / groups, channels / groups * points});
  const at::Tensor grouped = columns.reshape({batch, groups, channels / groups * points, out_h * out_w});
  const at::Tensor result = at::matmul(kernels, grouped).reshape({batch, outputs, out_h, out_w});
  return (result + bias.to(wide).view({1, outputs, 1, 1})).to(input.scalar_type());
}

}  // namespace whence::recorder::detection
