"""Pooling with a window: ceil_mode with its clipped last window, padding counted or not, indices."""

import torch
import torch.nn.functional as F

from ops.case import case, f32, i64

def unpool2d(x):
    return torch.ops.aten.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), [4, 6])


def unpool3d(x):
    return torch.ops.aten.max_unpool3d(*F.max_pool3d(x, 2, return_indices=True), [4, 4, 2], [2, 2, 2], [0, 0, 0])


CASES = [
    case("aten::max_pool2d", lambda x: F.max_pool2d(x, 3, 2, 1), f32(2, 3, 9, 8), dynamic="x:0=n,2=h", opsets=(13, 20)),
    case("aten::max_pool2d", lambda x: F.max_pool2d(x, 2), f32(3, 9, 8)),
    case("aten::max_pool2d", lambda x: F.max_pool2d(x, (2, 3), (2, 1), (1, 0), (1, 2), True), f32(1, 2, 10, 9)),
    case("aten::max_pool2d", lambda x: F.max_pool2d(x, 2, 2, 1, ceil_mode=True), f32(1, 2, 5, 5), dynamic="x:2=h"),
    case("aten::max_pool2d", lambda x: F.max_pool2d(x, 3, 2, 0, 2, True), f32(1, 2, 10, 12)),
    case("aten::max_pool1d", lambda x: F.max_pool1d(x, 3, 2, ceil_mode=True), f32(2, 3, 8)),
    case("aten::max_pool3d", lambda x: F.max_pool3d(x, 2, 1), f32(1, 2, 4, 5, 6)),
    case("aten::max_pool1d_with_indices", lambda x: F.max_pool1d(x, 3, 2, return_indices=True), f32(2, 3, 9)),
    case("aten::max_pool2d_with_indices", lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), f32(2, 3, 9, 8)),
    case("aten::max_pool2d_with_indices", lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), f32(3, 9, 8)),
    case("aten::max_pool2d_with_indices", lambda x: F.max_pool2d(x, 2, 2, return_indices=True), f32(2, 3, 8, 8),
         dynamic="x:0=n,2=h,3=w"),
    case("aten::max_pool2d_with_indices", lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), f32(2, 3, 8, 6),
         dynamic="x:2=h"),
    case("aten::max_pool2d_with_indices", lambda x: F.max_pool2d(x, 2, 2, return_indices=True)[0], f32(2, 3, 8, 8)),
    case("aten::max_pool3d_with_indices", lambda x: F.max_pool3d(x, 2, return_indices=True), f32(1, 2, 4, 5, 6)),
    case("aten::avg_pool1d", lambda x: F.avg_pool1d(x, 2), i64(0, 9, 1, 8), refused="ONNX has no AveragePool of int64"),
    case("aten::avg_pool1d", lambda x: F.avg_pool1d(x, 3, 2, 1), f32(2, 3, 9)),
    case("aten::avg_pool1d", lambda x: F.avg_pool1d(x, 2, ceil_mode=True, count_include_pad=False), f32(3, 9)),
    case("aten::avg_pool2d", lambda x: F.avg_pool2d(x, 3, 2, 1), f32(2, 3, 9, 8), dynamic="x:0=n,2=h",
         opsets=(13, 20, 22)),
    case("aten::avg_pool2d", lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), f32(2, 3, 9, 8)),
    case("aten::avg_pool2d", lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), f32(2, 3, 10, 10)),
    case("aten::avg_pool2d", lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
         f32(2, 3, 10, 10)),
    case("aten::avg_pool2d", lambda x: F.avg_pool2d(x, 3, 2, 1, divisor_override=5), f32(2, 3, 9, 8)),
    case("aten::avg_pool2d", lambda x: F.avg_pool2d(x, 3, 2, 1, True, divisor_override=5), f32(2, 3, 10, 10)),
    case("aten::avg_pool2d", lambda x: F.avg_pool2d(x, 3, 2, 1, True, divisor_override=5), f32(2, 3, 10, 10),
         dynamic="x:2=h", refused="divisor_override with ceil_mode over a dynamic size"),
    case("aten::avg_pool3d", lambda x: F.avg_pool3d(x, 2, 1, 1), f32(1, 2, 4, 5, 6)),
    case("aten::avg_pool3d", lambda x: F.avg_pool3d(x, 2, divisor_override=3), f32(2, 4, 5, 6)),
    case("aten::max_unpool2d", unpool2d, f32(2, 3, 4, 6),
         dynamic="x:0=n"),
    case("aten::max_unpool2d", unpool2d, f32(3, 4, 6)),
    case("aten::max_unpool3d", unpool3d,
         f32(1, 2, 4, 4, 2)),
    # windows as large as the dynamic input
    case("aten::avg_pool2d", lambda x: F.avg_pool2d(x, x.shape[2:]), f32(2, 3, 8, 9), dynamic="x:0=n,2=h,3=w",
         not_in_archives="torch.export fixes its sizes"),
    case("aten::avg_pool2d", lambda x: F.avg_pool2d(x, (x.shape[2], 1)), f32(2, 3, 8, 9), dynamic="x:2=h,3=w",
         not_in_archives="torch.export fixes its sizes"),
    case("aten::max_pool2d", lambda x: F.max_pool2d(x, x.shape[2:]), f32(2, 3, 8, 9), dynamic="x:0=n,2=h,3=w",
         not_in_archives="torch.export fixes its sizes"),
]
