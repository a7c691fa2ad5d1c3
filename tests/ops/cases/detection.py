"""torchvision's operators. Its library need not be there: what they compute is written here, after its documentation."""

import torch

from ops.case import Given, between, case, f32, two


def nms(dets: torch.Tensor, scores: torch.Tensor, iou_threshold: float) -> torch.Tensor:
    kept = []
    area = (dets[:, 2] - dets[:, 0]) * (dets[:, 3] - dets[:, 1])
    for place in scores.argsort(descending=True, stable=True).tolist():
        corner = torch.minimum(dets[kept, 2:], dets[place, 2:]) - torch.maximum(dets[kept, :2], dets[place, :2])
        common = corner.clamp(min=0).prod(1)
        if not (common / (area[kept] + area[place] - common) > iou_threshold).any():
            kept.append(place)
    return torch.tensor(kept)


def pixel(image: torch.Tensor, y: float, x: float) -> torch.Tensor:
    """image [C, H, W] between its pixels; 0 outside."""
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


def offer(schema: str, kernel, fake) -> None:
    """torchvision's operator, where torchvision has not registered it."""
    name = schema.split("(")[0]
    if torch._C._jit_get_schemas_for_operator(name):
        return
    torch.library.define(name, schema[len(name):])
    torch.library.impl(name, "cpu")(kernel)
    torch.library.register_fake(name)(fake)


def pooled(input, rois, scale, height, width, *rest):
    return input.new_empty(len(rois), input.shape[1], height, width)


offer("torchvision::nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor", nms,
      lambda dets, scores, iou_threshold: dets.new_empty(torch.library.get_ctx().new_dynamic_size(), dtype=torch.int64))
offer("torchvision::roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, "
      "SymInt pooled_width, int sampling_ratio, bool aligned) -> Tensor", roi_align, pooled)
offer("torchvision::roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, "
      "SymInt pooled_width) -> (Tensor, Tensor)", roi_pool,
      lambda *given: (pooled(*given), pooled(*given).to(torch.int32)))

PLACES = torch.tensor([[0, 0.4, 0.3, 9, 8], [1, 1, 2, 12, 11], [0, 3.2, 3, 9, 15], [1, 20, 3, 60, 15]])
REGIONS = two(PLACES, PLACES.flip(0) * torch.tensor([1, 0.5, 0.75, 1, 1]))


def boxes(count: int) -> Given:
    corners, sizes = between(0, 50, count, 2), between(1, 40, count, 2, seed=1)
    return two(*(torch.cat([corners.tensor(draw=draw), corners.tensor(draw=draw) + sizes.tensor(draw=draw)], 1)
                 for draw in (0, 1)))


def unknown(key: str, function, *inputs, **options):
    return case(key, function, *inputs, not_in_traces="torchvision registers it", **options)


CASES = [
    *(unknown("torchvision::nms", lambda dets, scores, limit=limit: torch.ops.torchvision.nms(dets, scores, limit),
              boxes(30), between(0, 0.99, 30)) for limit in (0.1, 0.5, 1.0)),
    *(unknown("torchvision::roi_align",
              lambda x, rois, ratio=ratio, aligned=aligned:
              torch.ops.torchvision.roi_align(x, rois, 0.5, 3, 2, ratio, aligned),
              f32(2, 3, 10, 12), REGIONS, opsets=(16, 20), tolerance=(1e-4, 1e-5))
      for ratio in (2, -1) for aligned in (True, False)),
    unknown("torchvision::roi_align", lambda x, rois: torch.ops.torchvision.roi_align(x, rois, 1.0, 3, 2, 2, True),
            f32(2, 3, 10, 12), REGIONS, opsets=(15,), refused="before opset 16"),
    unknown("torchvision::roi_pool", lambda x, rois: torch.ops.torchvision.roi_pool(x, rois, 0.5, 3, 3)[0],
            f32(2, 3, 10, 12), REGIONS),
    unknown("torchvision::roi_pool", lambda x, rois: torch.ops.torchvision.roi_pool(x, rois, 0.5, 3, 3)[1] + 1,
            f32(2, 3, 10, 12), REGIONS, refused="where the largest pixels were"),
]
