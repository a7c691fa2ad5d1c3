// The kernels of torchvision's operators, on the CPU. Images are [N, C, H, W]; boxes [K, 4] hold x1, y1, x2, y2;
// regions [K, 5] hold the number of their image before the box. Results have the dtype of the first argument; float16
// and bfloat16 are computed in float32. Wrong ranks and channels are errors of LibTorch (c10::Error).
#pragma once

#include <tuple>

#include "recorder/base/torch_pch.h"

namespace whence::recorder::detection {

// The boxes that are left, int64, the best first, when each that covers more than the threshold of a better one
// (intersection over union) is dropped.
at::Tensor nms(const at::Tensor& dets, const at::Tensor& scores, double iou_threshold);

// The mean of sampling_ratio^2 points in each part of each region, [K, C, height, width]; with a ratio of 0 or less as
// many points as the part has pixels.
at::Tensor roi_align(const at::Tensor& input, const at::Tensor& rois, double spatial_scale, std::int64_t pooled_height,
                     std::int64_t pooled_width, std::int64_t sampling_ratio, bool aligned);

// The largest pixel of each part, [K, C, height, width], and its place in its channel, int32, -1 in an empty part.
std::tuple<at::Tensor, at::Tensor> roi_pool(const at::Tensor& input, const at::Tensor& rois, double spatial_scale,
                                            std::int64_t pooled_height, std::int64_t pooled_width);

// As roi_align, but every part reads a channel of its own, [K, C / (height * width), height, width]; and which, int32.
std::tuple<at::Tensor, at::Tensor> ps_roi_align(const at::Tensor& input, const at::Tensor& rois, double spatial_scale,
                                                std::int64_t pooled_height, std::int64_t pooled_width,
                                                std::int64_t sampling_ratio);

// A convolution whose kernel reads at places shifted by offset [N, 2 * offset_groups * h * w, H', W'], y before x, each
// multiplied by mask [N, offset_groups * h * w, H', W'] if use_mask.
at::Tensor deform_conv2d(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& offset,
                         const at::Tensor& mask, const at::Tensor& bias, std::int64_t stride_h, std::int64_t stride_w,
                         std::int64_t pad_h, std::int64_t pad_w, std::int64_t dilation_h, std::int64_t dilation_w,
                         std::int64_t groups, std::int64_t offset_groups, bool use_mask);

}  // namespace whence::recorder::detection
