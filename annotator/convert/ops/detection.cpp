// torchvision's operators on boxes that ONNX also has. Boxes are [K, 4]: x1, y1, x2, y2; regions are [K, 5], with the
// index of their image in the batch before the box.
#include <algorithm>
#include <limits>
#include <utility>

#include "annotator/convert/ops/families.h"

namespace whence::convert {
namespace {

// The indices of the kept boxes, best first. ONNX takes boxes [1, K, 4] and scores [1, 1, K], and gives rows of image,
// class, index. It accepts any two opposite corners, so its order y, x does not matter.
void nms(Ctx& c) {
  const Val boxes = c.unsqueeze(c.cast(c.tensor("dets"), DType::float32), {0});
  const Val scores = c.unsqueeze(c.cast(c.tensor("scores"), DType::float32), {0, 1});
  const Val all = c.constant_ints({std::numeric_limits<std::int64_t>::max()});
  TensorData threshold = *c.constant(c.constant_number(c.number("iou_threshold"), DType::float32));
  threshold.shape = {1};
  const Val kept = c.emit("NonMaxSuppression", {boxes, scores, all, c.constant_tensor(std::move(threshold))});
  c.yield(c.emit("Gather", {kept, c.constant_int(2)}, {{"axis", 1}}));
}

// Splits regions into boxes [K, 4] and the indices of their images [K].
std::pair<Val, Val> split_regions(Ctx& c, Val regions) {
  const Val axis = c.constant_ints({1}), end = c.constant_ints({5});
  const Val boxes = c.emit("Slice", {regions, axis, end, axis});
  const Val images = c.emit("Gather", {regions, c.constant_int(0)}, {{"axis", 1}});
  return {boxes, c.emit("Cast", {images}, {{"to", static_cast<std::int64_t>(to_onnx(DType::int64))}})};
}

// Returns the boxes and spatial_scale, the number of feature pixels per image pixel. ONNX takes the scale as an
// attribute: if the model computes it (from the sizes of image and features), the boxes are multiplied by it instead.
std::pair<Val, float> to_features(Ctx& c, Val boxes) {
  const Val scale = c.scalar("spatial_scale", c.dtype(c.tensor("rois")));
  if (c.constant(scale) != nullptr) return {boxes, static_cast<float>(c.number("spatial_scale"))};
  return {c.emit("Mul", {boxes, scale}), 1.0F};
}

// Averages of sampled points between the pixels of each region, [K, C, height, width].
void roi_align(Ctx& c) {
  const bool aligned = c.flag("aligned");
  if (aligned && c.opset() < 16) {
    c.refuse("RoiAlign has no aligned regions before opset 16", "use --opset 16 or newer");
  }
  const auto [regions, images] = split_regions(c, c.tensor("rois"));
  const auto [boxes, scale] = to_features(c, regions);
  Attributes attributes{{"spatial_scale", scale},
                        {"output_height", c.integer("pooled_height")},
                        {"output_width", c.integer("pooled_width")},
                        {"sampling_ratio", std::max<std::int64_t>(c.integer("sampling_ratio"), 0)}};
  if (c.opset() >= 16) {
    attributes.push_back({"coordinate_transformation_mode", std::string(aligned ? "half_pixel" : "output_half_pixel")});
  }
  c.yield(c.emit("RoiAlign", {c.tensor("input"), boxes, images}, std::move(attributes)));
}

// The maximum of each part of each region. ONNX does not return its index.
void roi_pool(Ctx& c) {
  if (c.result_used(1)) c.refuse("ONNX does not return the indices of the maxima", "use only the first result");
  const Ints shape{c.integer("pooled_height"), c.integer("pooled_width")};
  const Val axis = c.constant_ints({1}), rois = c.tensor("rois");
  const auto [boxes, scale] = to_features(c, rois);
  // The image index in the first column is not scaled.
  const Val regions = boxes == rois ? rois
                                    : c.emit("Concat",
                                             {c.emit("Slice", {rois, c.constant_ints({0}), axis, axis}),
                                              c.emit("Slice", {boxes, axis, c.constant_ints({5}), axis})},
                                             {{"axis", 1}});
  const Val pooled =
      c.emit("MaxRoiPool", {c.tensor("input"), regions}, {{"pooled_shape", shape}, {"spatial_scale", scale}});
  c.yield({pooled, absent});
}

// Averages of sampled points; each part of a region has its own channels: [K, C / parts, height, width]. ONNX's
// operator averages every channel in every part, and each part's own channels are selected from that.
void ps_roi_align(Ctx& c) {
  if (c.result_used(1)) c.refuse("ONNX does not return the channel mapping", "use only the first result");
  if (c.opset() < 16) c.refuse("RoiAlign has no aligned regions before opset 16", "use --opset 16 or newer");
  const std::int64_t height = c.count("pooled_height"), width = c.count("pooled_width");
  Ints diagonal(c.table_size({height, width}));
  const std::int64_t parts = height * width;
  const auto [regions, images] = split_regions(c, c.tensor("rois"));
  const auto [boxes, scale] = to_features(c, regions);
  const Val every = c.emit("RoiAlign", {c.tensor("input"), boxes, images},
                           {{"spatial_scale", scale},
                            {"output_height", height},
                            {"output_width", width},
                            {"sampling_ratio", std::max<std::int64_t>(c.integer("sampling_ratio"), 0)},
                            {"coordinate_transformation_mode", std::string("half_pixel")}});
  // [K, C / parts, parts of the channel * parts of the region]; the diagonal of the last axis is selected.
  const Val flat = c.emit("Reshape", {every, c.constant_ints({0, -1, parts * parts})});
  for (std::int64_t part = 0; part < parts; ++part) diagonal[static_cast<std::size_t>(part)] = part * (parts + 1);
  const Val own = c.emit("Gather", {flat, c.constant_ints(diagonal)}, {{"axis", 2}});
  c.yield({c.emit("Reshape", {own, c.constant_ints({0, 0, height, width})}), absent});
}

void deform_conv2d(Ctx& c) {
  if (c.opset() < 19) c.refuse("ONNX has DeformConv from opset 19", "use --opset 19 or newer");
  const std::int64_t down = c.integer("pad_h"), along = c.integer("pad_w");
  std::vector<Val> operands{c.tensor("input"), c.tensor("weight"), c.tensor("offset"), c.tensor("bias")};
  if (c.flag("use_mask")) operands.push_back(c.tensor("mask"));
  c.yield(c.emit("DeformConv", operands,
                 {{"strides", Ints{c.integer("stride_h"), c.integer("stride_w")}},
                  {"pads", Ints{down, along, down, along}},
                  {"dilations", Ints{c.integer("dilation_h"), c.integer("dilation_w")}},
                  {"group", c.integer("groups")},
                  {"offset_group", c.integer("offset_groups")}}));
}

const OpEntry kDetection[] = {
    {"torchvision::nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor", nms},
    {"torchvision::roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt "
     "pooled_width, int sampling_ratio, bool aligned) -> Tensor",
     roi_align},
    {"torchvision::roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt "
     "pooled_width) -> (Tensor, Tensor)",
     roi_pool},
    {"torchvision::ps_roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt "
     "pooled_width, int sampling_ratio) -> (Tensor, Tensor)",
     ps_roi_align},
    {"torchvision::deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt "
     "stride_h, "
     "SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt "
     "offset_groups, bool use_mask) -> Tensor",
     deform_conv2d},
};

}  // namespace

OpFamily detection_ops() { return kDetection; }

}  // namespace whence::convert
