// Samples an image at given coordinates: grid_sampler, and the grid of an affine transformation.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "annotator/convert/ops/families.h"
#include "annotator/program/tensor_values.h"

namespace whence::convert {
namespace {

// Enumerations of aten/src/ATen/native/GridSamplerUtils.h, PyTorch 2.13. ONNX renamed its modes in opset 20.
const char* interpolation(Ctx& c) {
  const bool renamed = c.opset() >= 20;
  switch (c.integer("interpolation_mode")) {
    case 0:
      return renamed ? "linear" : "bilinear";
    case 1:
      return "nearest";
    case 2:
      return renamed ? "cubic" : "bicubic";
    default:
      c.refuse("an interpolation mode other than bilinear, nearest or bicubic is not supported", "use one of these");
  }
}

const char* padding(Ctx& c) {
  switch (c.integer("padding_mode")) {
    case 0:
      return "zeros";
    case 1:
      return "border";
    case 2:
      return "reflection";
    default:
      c.refuse("a padding mode other than zeros, border or reflection is not supported", "use one of these");
  }
}

// input [N, C, H, W], grid [N, out H, out W, 2] with x before y in [-1, 1]; both may have a depth axis.
void grid_sampler(Ctx& c) {
  const Val x = c.tensor("input");
  const int needed = c.rank(x) == 5 ? 20 : 16;
  if (c.opset() < needed) {
    c.refuse("grid_sampler over " + std::to_string(c.rank(x) - 2) + " axes needs opset " + std::to_string(needed),
             "export with --opset " + std::to_string(needed) + " or newer");
  }
  Attributes attributes;
  if (c.flag("align_corners")) attributes.push_back({"align_corners", 1});
  attributes.push_back({"mode", interpolation(c)});
  attributes.push_back({"padding_mode", padding(c)});
  c.yield(c.emit("GridSample", {x, c.tensor("grid")}, std::move(attributes)));
}

// Coordinates of `size` pixel centres in [-1, 1].
std::vector<double> coordinates(std::int64_t size, bool align_corners) {
  std::vector<double> positions;
  for (std::int64_t i = 0; i < size; ++i) {
    const double position = align_corners
                                ? (size == 1 ? 0.0 : -1 + 2.0 * static_cast<double>(i) / static_cast<double>(size - 1))
                                : (2.0 * static_cast<double>(i) + 1) / static_cast<double>(size) - 1;
    positions.push_back(position);
  }
  return positions;
}

// (x, y, 1) of every output pixel in row-major order, as a constant [pixels, axes + 1] of `dtype`.
Val base_grid(Ctx& c, const Ints& spatial, bool align_corners, DType dtype) {
  std::int64_t pixels = 1;
  for (const std::int64_t size : spatial) pixels = static_cast<std::int64_t>(c.table_size({pixels, size}));
  std::vector<std::vector<double>> positions;
  for (const std::int64_t size : spatial) positions.push_back(coordinates(size, align_corners));
  std::vector<double> grid;
  for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
    std::int64_t rest = pixel;
    for (std::size_t axis = spatial.size(); axis-- > 0; rest /= spatial[axis]) {  // the last axis, x, comes first
      grid.push_back(positions[axis][rest % spatial[axis]]);
    }
    grid.push_back(1);
  }
  const TensorData wide{DType::float64,
                        {pixels, static_cast<std::int64_t>(spatial.size()) + 1},
                        Bytes::copy_of(grid.data(), grid.size() * sizeof(double))};
  const auto data = program::cast_tensor(wide, dtype);
  if (!data) c.refuse("affine_grid of dtype " + std::string(name_of(dtype)) + " is not supported", "use float32");
  return c.constant_tensor(*data);
}

// theta [N, axes, axes + 1], size [N, C, *spatial] -> [N, *spatial, axes]
void affine_grid_generator(Ctx& c) {
  const Val theta = c.tensor("theta");
  const bool align_corners = c.flag("align_corners");
  const std::vector<Size> size = c.sizes("size");
  // AffineGrid is undefined for aligned corners along an axis of one pixel, which PyTorch centres.
  Ints spatial;
  bool one_pixel = false;
  for (std::size_t axis = 2; axis < size.size(); ++axis) {
    const std::int64_t known = c.static_size(size[axis]).value_or(-1);
    spatial.push_back(known);
    one_pixel = one_pixel || known == 1;
  }
  if (c.opset() >= 20 && !(align_corners && one_pixel)) {
    return c.yield(c.emit("AffineGrid", {theta, c.to_vector(size)}, {{"align_corners", align_corners ? 1 : 0}}));
  }
  if (std::count(spatial.begin(), spatial.end(), -1) != 0) {
    c.refuse("affine_grid of dynamic size needs opset 20", "export with --opset 20 or newer, or with a fixed size");
  }
  const Val grid =
      c.emit("MatMul", {base_grid(c, spatial, align_corners, c.dtype(theta)), c.transpose(theta, {0, 2, 1})});
  c.yield(c.reshape_to_output(grid));
}

const OpEntry kGrid[] = {
    {"aten::grid_sampler(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> "
     "Tensor",
     grid_sampler},
    {"aten::grid_sampler_2d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) "
     "-> Tensor",
     grid_sampler},
    {"aten::grid_sampler_3d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) "
     "-> Tensor",
     grid_sampler},
    {"aten::affine_grid_generator(Tensor theta, SymInt[] size, bool align_corners) -> Tensor", affine_grid_generator},
};

}  // namespace

OpFamily grid_ops() { return kGrid; }

}  // namespace whence::convert
