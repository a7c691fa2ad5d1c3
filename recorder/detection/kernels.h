// CPU kernels of torchvision's operators. Images are [N, C, H, W]; boxes [K, 4] hold x1, y1, x2, y2; regions [K, 5]
// hold the image's index, then the box. Results have the dtype of the first argument; float16 and bfloat16 are computed
// in float32. Wrong ranks and channels raise c10::Error.
#pragma once

#include <tuple>

#include "recorder/base/torch_pch.h"

namespace whence::recorder::detection {

// Returns the indices of the remaining boxes, int64, best score first. Drops each box whose intersection over union
// with a better remaining box exceeds the threshold.
at::Tensor nms(const at::Tensor& dets, const at::Tensor& scores, double iou_threshold);

// Returns the mean of sampling_ratio^2 points in each cell of each region, [K, C, height, width]. If the ratio is 0 or
// less, uses about one point per pixel of the cell.
at::Tensor roi_align(const at::Tensor& input, const at::Tensor& rois, double spatial_scale, std::int64_t pooled_height,
                     std::int64_t pooled_width, std::int64_t sampling_ratio, bool aligned);

// Returns the largest pixel of each cell, [K, C, height, width], and its index in its channel, int32, -1 for an empty
// cell.
std::tuple<at::Tensor, at::Tensor> roi_pool(const at::Tensor& input, const at::Tensor& rois, double spatial_scale,
                                            std::int64_t pooled_height, std::int64_t pooled_width);

// Like roi_align, but each cell reads a channel of its own: returns [K, C / (height * width), height, width] and the
// indices of the channels, int32.
std::tuple<at::Tensor, at::Tensor> ps_roi_align(const at::Tensor& input, const at::Tensor& rois, double spatial_scale,
                                                std::int64_t pooled_height, std::int64_t pooled_width,
                                                std::int64_t sampling_ratio);

// Convolution with a kernel that reads at positions shifted by offset [N, 2 * offset_groups * h * w, H', W'], y before
// x. If use_mask, each input is multiplied by mask [N, offset_groups * h * w, H', W'].
at::Tensor deform_conv2d(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& offset,
                         const at::Tensor& mask, const at::Tensor& bias, std::int64_t stride_h, std::int64_t stride_w,
                         std::int64_t pad_h, std::int64_t pad_w, std::int64_t dilation_h, std::int64_t dilation_w,
                         std::int64_t groups, std::int64_t offset_groups, bool use_mask);

}  // namespace whence::recorder::detection
