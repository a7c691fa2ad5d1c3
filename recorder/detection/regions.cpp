// roi_align, roi_pool, ps_roi_align: divide each region of an image into a grid of cells and reduce each cell to a
// number.
#include <cmath>
#include <limits>

#include "recorder/detection/kernels.h"

namespace whence::recorder::detection {

namespace {

void check(const char* name, const at::Tensor& input, const at::Tensor& rois) {
  TORCH_CHECK(input.dim() == 4, name, ": images must be [N, C, H, W], got ", input.sizes());
  TORCH_CHECK(rois.dim() == 2 && rois.size(1) == 5, name, ": regions must be [K, 5], got ", rois.sizes());
  TORCH_CHECK(input.scalar_type() == rois.scalar_type(), name, ": images and regions must have the same dtype");
}

at::ScalarType wide_dtype(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// A channel of an image, [H, W].
template <class Number>
struct Plane {
  const Number* pixels;
  std::int64_t height, width;

  // Interpolates between pixels. Repeats the border pixel up to one pixel outside; farther outside is 0.
  Number at(Number y, Number x) const {
    if (y < -1 || y > static_cast<Number>(height) || x < -1 || x > static_cast<Number>(width)) return 0;
    const auto [top, bottom, down] = between(y, height);
    const auto [left, right, along] = between(x, width);
    return (1 - down) * ((1 - along) * pixels[top * width + left] + along * pixels[top * width + right]) +
           down * ((1 - along) * pixels[bottom * width + left] + along * pixels[bottom * width + right]);
  }

 private:
  // Returns the two pixels around a position along an axis, and the weight of the second one.
  static std::tuple<std::int64_t, std::int64_t, Number> between(Number position, std::int64_t size) {
    position = std::max<Number>(position, 0);
    const auto low = static_cast<std::int64_t>(position);
    if (low >= size - 1) return {size - 1, size - 1, 0};
    return {low, low + 1, position - static_cast<Number>(low)};
  }
};

// The extent of a region along one axis. It is divided into cells of `part` pixels, with `points` sampling points each.
template <class Number>
struct Span {
  Number start, part;
  std::int64_t points;

  Span(Number from, Number to, double scale, Number shift, bool at_least_a_pixel, std::int64_t parts,
       std::int64_t ratio) {
    const auto scaled = static_cast<Number>(scale);
    start = from * scaled - shift;
    Number length = to * scaled - shift - start;
    if (at_least_a_pixel) length = std::max<Number>(length, 1);
    part = length / static_cast<Number>(parts);
    points = ratio > 0 ? ratio : static_cast<std::int64_t>(std::ceil(part));
  }
  Number position(std::int64_t index, std::int64_t point) const {
    return start + static_cast<Number>(index) * part +
           (static_cast<Number>(point) + Number(0.5)) * part / static_cast<Number>(points);
  }
};

template <class Number>
Number sum_of_points(const Plane<Number>& plane, const Span<Number>& rows, const Span<Number>& columns,
                     std::int64_t row, std::int64_t column) {
  Number sum = 0;
  for (std::int64_t i = 0; i < rows.points; ++i) {
    for (std::int64_t j = 0; j < columns.points; ++j) {
      sum += plane.at(rows.position(row, i), columns.position(column, j));
    }
  }
  return sum;
}

// Calls fill(function from channel to plane of the region's image, region, index of the region).
template <class Number, class Fill>
void for_each_region(const char* name, const at::Tensor& images, const at::Tensor& regions, const Fill& fill) {
  const std::int64_t channels = images.size(1), height = images.size(2), width = images.size(3);
  const auto rows = regions.accessor<Number, 2>();
  for (std::int64_t k = 0; k < regions.size(0); ++k) {
    const auto image = static_cast<std::int64_t>(rows[k][0]);
    TORCH_CHECK_INDEX(0 <= image && image < images.size(0), name, ": region ", k, " refers to image ", image,
                      ", but there are ", images.size(0), " images");
    const Number* pixels = images.const_data_ptr<Number>() + image * channels * height * width;
    fill(
        [=](std::int64_t channel) {
          return Plane<Number>{pixels + channel * height * width, height, width};
        },
        rows[k], k);
  }
}

}  // namespace

at::Tensor roi_align(const at::Tensor& input, const at::Tensor& rois, double spatial_scale, std::int64_t pooled_height,
                     std::int64_t pooled_width, std::int64_t sampling_ratio, bool aligned) {
  check("roi_align", input, rois);
  const at::ScalarType wide = wide_dtype(input);
  const at::Tensor images = input.to(wide).contiguous(), regions = rois.to(wide).contiguous();
  at::Tensor result = at::zeros({rois.size(0), input.size(1), pooled_height, pooled_width}, wide);
  AT_DISPATCH_FLOATING_TYPES(wide, "roi_align", [&] {
    auto out = result.accessor<scalar_t, 4>();
    const auto shift = static_cast<scalar_t>(aligned ? 0.5 : 0);
    for_each_region<scalar_t>("roi_align", images, regions, [&](auto plane, auto region, std::int64_t k) {
      const Span<scalar_t> columns(region[1], region[3], spatial_scale, shift, !aligned, pooled_width, sampling_ratio);
      const Span<scalar_t> rows(region[2], region[4], spatial_scale, shift, !aligned, pooled_height, sampling_ratio);
      const auto count = static_cast<scalar_t>(std::max<std::int64_t>(rows.points * columns.points, 1));
      for (std::int64_t c = 0; c < input.size(1); ++c) {
        for (std::int64_t i = 0; i < pooled_height; ++i) {
          for (std::int64_t j = 0; j < pooled_width; ++j) {
            out[k][c][i][j] = sum_of_points(plane(c), rows, columns, i, j) / count;
          }
        }
      }
    });
  });
  return result.to(input.scalar_type());
}

std::tuple<at::Tensor, at::Tensor> roi_pool(const at::Tensor& input, const at::Tensor& rois, double spatial_scale,
                                            std::int64_t pooled_height, std::int64_t pooled_width) {
  check("roi_pool", input, rois);
  const at::ScalarType wide = wide_dtype(input);
  const at::Tensor images = input.to(wide).contiguous(), regions = rois.to(wide).contiguous();
  at::Tensor result = at::zeros({rois.size(0), input.size(1), pooled_height, pooled_width}, wide);
  at::Tensor indices = at::full(result.sizes(), -1, at::kInt);
  AT_DISPATCH_FLOATING_TYPES(wide, "roi_pool", [&] {
    auto out = result.accessor<scalar_t, 4>();
    auto where = indices.accessor<std::int32_t, 4>();
    // Returns the range of pixels [first, last) of cell `index` along an axis.
    const auto pixels = [&](scalar_t from, scalar_t to, std::int64_t index, std::int64_t parts, std::int64_t size) {
      const auto scale = static_cast<scalar_t>(spatial_scale);
      const auto start = static_cast<std::int64_t>(std::round(from * scale));
      const auto end = static_cast<std::int64_t>(std::round(to * scale));
      const scalar_t part =
          static_cast<scalar_t>(std::max<std::int64_t>(end - start + 1, 1)) / static_cast<scalar_t>(parts);
      const auto low = static_cast<std::int64_t>(std::floor(static_cast<scalar_t>(index) * part));
      const auto high = static_cast<std::int64_t>(std::ceil(static_cast<scalar_t>(index + 1) * part));
      return std::pair(std::clamp<std::int64_t>(low + start, 0, size), std::clamp<std::int64_t>(high + start, 0, size));
    };
    for_each_region<scalar_t>("roi_pool", images, regions, [&](auto plane, auto region, std::int64_t k) {
      for (std::int64_t c = 0; c < input.size(1); ++c) {
        const Plane<scalar_t> channel = plane(c);
        for (std::int64_t i = 0; i < pooled_height; ++i) {
          const auto [top, bottom] = pixels(region[2], region[4], i, pooled_height, channel.height);
          for (std::int64_t j = 0; j < pooled_width; ++j) {
            const auto [left, right] = pixels(region[1], region[3], j, pooled_width, channel.width);
            scalar_t best = std::numeric_limits<scalar_t>::lowest();
            for (std::int64_t y = top; y < bottom; ++y) {
              for (std::int64_t x = left; x < right; ++x) {
                const std::int64_t index = y * channel.width + x;
                if (!(channel.pixels[index] > best)) continue;
                out[k][c][i][j] = best = channel.pixels[index];
                where[k][c][i][j] = static_cast<std::int32_t>(index);
              }
            }
          }
        }
      }
    });
  });
  return {result.to(input.scalar_type()), indices};
}

std::tuple<at::Tensor, at::Tensor> ps_roi_align(const at::Tensor& input, const at::Tensor& rois, double spatial_scale,
                                                std::int64_t pooled_height, std::int64_t pooled_width,
                                                std::int64_t sampling_ratio) {
  check("ps_roi_align", input, rois);
  const std::int64_t parts = pooled_height * pooled_width;
  TORCH_CHECK(input.size(1) % parts == 0, "ps_roi_align: channels must be a multiple of ", parts, ", got ",
              input.size(1));
  const at::ScalarType wide = wide_dtype(input);
  const at::Tensor images = input.to(wide).contiguous(), regions = rois.to(wide).contiguous();
  at::Tensor result = at::zeros({rois.size(0), input.size(1) / parts, pooled_height, pooled_width}, wide);
  at::Tensor channels = at::zeros(result.sizes(), at::kInt);
  AT_DISPATCH_FLOATING_TYPES(wide, "ps_roi_align", [&] {
    auto out = result.accessor<scalar_t, 4>();
    auto where = channels.accessor<std::int32_t, 4>();
    for_each_region<scalar_t>("ps_roi_align", images, regions, [&](auto plane, auto region, std::int64_t k) {
      const auto half = static_cast<scalar_t>(0.5);
      const Span<scalar_t> columns(region[1], region[3], spatial_scale, half, false, pooled_width, sampling_ratio);
      const Span<scalar_t> rows(region[2], region[4], spatial_scale, half, false, pooled_height, sampling_ratio);
      const auto count = static_cast<scalar_t>(rows.points * columns.points);
      for (std::int64_t c = 0; c < result.size(1); ++c) {
        for (std::int64_t i = 0; i < pooled_height; ++i) {
          for (std::int64_t j = 0; j < pooled_width; ++j) {
            const std::int64_t from = (c * pooled_height + i) * pooled_width + j;
            out[k][c][i][j] = sum_of_points(plane(from), rows, columns, i, j) / count;
            where[k][c][i][j] = static_cast<std::int32_t>(from);
          }
        }
      }
    });
  });
  return {result.to(input.scalar_type()), channels};
}

}  // namespace whence::recorder::detection
