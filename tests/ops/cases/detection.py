"""torchvision's operators. Implements them from its documentation, so that torchvision is not required."""

import torch

from ops.case import FixedInput, between, case, f32, per_run


def nms(dets: torch.Tensor, scores: torch.Tensor, iou_threshold: float) -> torch.Tensor:
    selected = []
    area = (dets[:, 2] - dets[:, 0]) * (dets[:, 3] - dets[:, 1])
    for index in scores.argsort(descending=True, stable=True).tolist():
        sides = torch.minimum(dets[selected, 2:], dets[index, 2:]) - torch.maximum(dets[selected, :2], dets[index, :2])
        common = sides.clamp(min=0).prod(1)
        if not (common / (area[selected] + area[index] - common) > iou_threshold).any():
            selected.append(index)
    return torch.tensor(selected)


def pixel(image: torch.Tensor, y: float, x: float) -> torch.Tensor:
    """Interpolates image [C, H, W] between its pixels; returns 0 outside."""
    height, width = image.shape[1:]
    if not (-1 <= y <= height and -1 <= x <= width):
        return torch.zeros(len(image))
    y, x = max(y, 0), max(x, 0)
    top, left = min(int(y), height - 1), min(int(x), width - 1)
    bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
    down, along = (y - top if top < bottom else 0), (x - left if left < right else 0)
    return ((1 - down) * ((1 - along) * image[:, top, left] + along * image[:, top, right])
            + down * ((1 - along) * image[:, bottom, left] + along * image[:, bottom, right]))


def roi_align(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned):
    result = input.new_zeros(len(rois), input.shape[1], pooled_height, pooled_width)
    for number, roi in enumerate(rois):
        left, top, right, bottom = (roi[1:] * spatial_scale - (0.5 if aligned else 0)).tolist()
        height, width = bottom - top, right - left
        if not aligned:
            height, width = max(height, 1), max(width, 1)
        height, width = height / pooled_height, width / pooled_width
        down = sampling_ratio if sampling_ratio > 0 else -int(-height // 1)
        along = sampling_ratio if sampling_ratio > 0 else -int(-width // 1)
        for row in range(pooled_height):
            for column in range(pooled_width):
                points = [pixel(input[int(roi[0])], top + (row + (i + 0.5) / down) * height,
                                left + (column + (j + 0.5) / along) * width)
                          for i in range(down) for j in range(along)]
                result[number, :, row, column] = torch.stack(points).mean(0)
    return result


def roi_pool(input, rois, spatial_scale, pooled_height, pooled_width):
    result = input.new_zeros(len(rois), input.shape[1], pooled_height, pooled_width)
    for number, roi in enumerate(rois):
        left, top, right, bottom = ((roi[1:] * spatial_scale + 0.5) // 1).int().tolist()
        height, width = max(bottom - top + 1, 1) / pooled_height, max(right - left + 1, 1) / pooled_width
        for row in range(pooled_height):
            for column in range(pooled_width):
                part = input[int(roi[0]), :, max(int(row * height // 1) + top, 0): -int(-(row + 1) * height // 1) + top,
                             max(int(column * width // 1) + left, 0): -int(-(column + 1) * width // 1) + left]
                if part.numel():
                    result[number, :, row, column] = part.amax((1, 2))
    return result, torch.zeros(result.shape, dtype=torch.int32)


def ps_roi_align(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio):
    every = roi_align(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, True)
    own = torch.arange(input.shape[1], dtype=torch.int32).view(1, -1, pooled_height, pooled_width)
    parts = every.view(len(rois), *own.shape[1:], pooled_height * pooled_width).flatten(2, 3)
    return parts.diagonal(dim1=2, dim2=3).view(len(rois), *own.shape[1:]), own.expand(len(rois), -1, -1, -1)


def deform_conv2d(input, weight, offset, mask, bias, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups,
                  offset_groups, use_mask):
    """Samples at the shifted positions with grid_sample; -1 and 1 are the centres of the first and last pixel."""
    (batch, channels, height, width), (kernel_h, kernel_w), size = input.shape, weight.shape[2:], offset.shape[2:]
    shift = offset.view(batch, offset_groups, kernel_h * kernel_w, 2, *size)
    mask = mask.view(batch, offset_groups, kernel_h * kernel_w, *size) if use_mask else torch.ones_like(shift[:, :, :, 0])
    images, columns = input.view(batch * offset_groups, -1, height, width), []
    for point in range(kernel_h * kernel_w):
        rows = torch.arange(size[0])[:, None] * stride_h - pad_h + point // kernel_w * dilation_h
        along = torch.arange(size[1]) * stride_w - pad_w + point % kernel_w * dilation_w
        y = (rows + shift[:, :, point, 0]).flatten(0, 1) * 2 / (height - 1) - 1
        x = (along + shift[:, :, point, 1]).flatten(0, 1) * 2 / (width - 1) - 1
        samples = torch.nn.functional.grid_sample(images, torch.stack([x, y], -1), align_corners=True)
        columns.append((samples * mask[:, :, point].flatten(0, 1)[:, None]).view(batch, groups, -1, 1, *size))
    columns = torch.cat(columns, 3).flatten(2, 3).flatten(3)
    kernels = weight.view(groups, len(weight) // groups, -1)
    return torch.einsum("goc,bgcp->bgop", kernels, columns).reshape(batch, -1, *size) + bias[:, None, None]


def register(schema: str, kernel, fake) -> None:
    """Registers an operator of torchvision unless torchvision has registered it."""
    name = schema.split("(")[0]
    if torch._C._jit_get_schemas_for_operator(name):
        return
    torch.library.define(name, schema[len(name):])
    torch.library.impl(name, "cpu")(kernel)
    torch.library.register_fake(name)(fake)


def pooled_shape(input, rois, scale, height, width, *rest):
    return input.new_empty(len(rois), input.shape[1], height, width)


register("torchvision::nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor", nms,
         lambda dets, scores, iou_threshold: dets.new_empty(torch.library.get_ctx().new_dynamic_size(),
                                                            dtype=torch.int64))
register("torchvision::roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, "
         "SymInt pooled_width, int sampling_ratio, bool aligned) -> Tensor", roi_align, pooled_shape)
register("torchvision::roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, "
         "SymInt pooled_width) -> (Tensor, Tensor)", roi_pool,
         lambda *inputs: (pooled_shape(*inputs), pooled_shape(*inputs).to(torch.int32)))


def position_sensitive(input, rois, scale, height, width, *rest):
    result = input.new_empty(len(rois), input.shape[1] // (height * width), height, width)
    return result, result.to(torch.int32)


register("torchvision::ps_roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, "
         "SymInt pooled_width, int sampling_ratio) -> (Tensor, Tensor)", ps_roi_align, position_sensitive)
register("torchvision::deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, "
         "SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, "
         "SymInt groups, SymInt offset_groups, bool use_mask) -> Tensor", deform_conv2d,
         lambda input, weight, offset, *rest: input.new_empty(len(input), len(weight), *offset.shape[2:]))

ROIS = torch.tensor([[0, 0.4, 0.3, 9, 8], [1, 1, 2, 12, 11], [0, 3.2, 3, 9, 15], [1, 20, 3, 60, 15]])
ROUNDED_POSITIONS = {"half": "grid_sample in deform_conv2d rounds its sampling positions to half"}
REGIONS = per_run(ROIS, ROIS.flip(0) * torch.tensor([1, 0.5, 0.75, 1, 1]))


def boxes(count: int) -> FixedInput:
    corners, sizes = between(0, 50, count, 2), between(1, 40, count, 2, seed=1)
    return per_run(*(torch.cat([corners.tensor(draw=draw), corners.tensor(draw=draw) + sizes.tensor(draw=draw)], 1)
                 for draw in (0, 1)))


CASES = [
    *(case("torchvision::nms", lambda dets, scores, limit=limit: torch.ops.torchvision.nms(dets, scores, limit),
              boxes(30), between(0, 0.99, 30)) for limit in (0.1, 0.5, 1.0)),
    *(case("torchvision::roi_align",
              lambda x, rois, ratio=ratio, aligned=aligned:
              torch.ops.torchvision.roi_align(x, rois, 0.5, 3, 2, ratio, aligned),
              f32(2, 3, 10, 12), REGIONS, opsets=(16, 20), tolerance=(1e-4, 1e-5))
      for ratio in (2, -1) for aligned in (True, False)),
    case("torchvision::roi_align", lambda x, rois: torch.ops.torchvision.roi_align(x, rois, 1.0, 3, 2, 2, True),
            f32(2, 3, 10, 12), REGIONS, opsets=(15,), refused="before opset 16"),
    case("torchvision::roi_pool", lambda x, rois: torch.ops.torchvision.roi_pool(x, rois, 0.5, 3, 3)[0],
            f32(2, 3, 10, 12), REGIONS),
    case("torchvision::roi_pool", lambda x, rois: torch.ops.torchvision.roi_pool(x, rois, 0.5, 3, 3)[1] + 1,
            f32(2, 3, 10, 12), REGIONS, refused="the indices of the maxima"),
    *(case("torchvision::ps_roi_align",
           lambda x, rois, ratio=ratio: torch.ops.torchvision.ps_roi_align(x, rois, 0.5, 3, 2, ratio)[0],
           f32(2, 12, 10, 12), REGIONS, opsets=(16, 20), tolerance=(1e-4, 1e-5)) for ratio in (2, -1)),
    case("torchvision::ps_roi_align", lambda x, rois: torch.ops.torchvision.ps_roi_align(x, rois, 1.0, 3, 2, 2)[1] + 1,
         f32(2, 12, 10, 12), REGIONS, refused="the channel mapping"),
    case("torchvision::ps_roi_align", lambda x, rois: torch.ops.torchvision.ps_roi_align(x, rois, 1.0, 3, 2, 2)[0],
         f32(2, 12, 10, 12), REGIONS, opsets=(15,), refused="before opset 16"),
    case("torchvision::deform_conv2d",
         lambda x, weight, offset, mask, bias: torch.ops.torchvision.deform_conv2d(
             x, weight, offset, mask, bias, 2, 1, 1, 2, 1, 2, 2, 2, True),
         f32(2, 4, 9, 8), f32(6, 2, 3, 2), f32(2, 24, 5, 10), between(0, 1, 2, 12, 5, 10), f32(6), opsets=(19, 22),
         tolerance=(1e-4, 1e-5), not_as=ROUNDED_POSITIONS),
    case("torchvision::deform_conv2d",
         lambda x, weight, offset, mask, bias: torch.ops.torchvision.deform_conv2d(
             x, weight, offset, mask, bias, 1, 1, 1, 1, 1, 1, 1, 1, False),
         f32(2, 4, 9, 8), f32(6, 4, 3, 3), f32(2, 18, 9, 8), f32(2, 1), f32(6), opsets=(20,), tolerance=(1e-4, 1e-5),
         not_as=ROUNDED_POSITIONS),
    case("torchvision::deform_conv2d",
         lambda x, weight, offset, bias: torch.ops.torchvision.deform_conv2d(
             x, weight, offset, x.new_zeros(2, 1), bias, 1, 1, 1, 1, 1, 1, 1, 1, False),
         f32(2, 4, 9, 8), f32(6, 4, 3, 3), f32(2, 18, 9, 8), f32(6), opsets=(18,), refused="opset 19"),
]
