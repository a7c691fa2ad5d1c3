"""Pooling to a size: 1, a divisor, the same size, and sizes with uneven or overlapping windows."""

import torch
import torch.nn.functional as F

from ops.case import case, f32

CASES = [
    case("aten::adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, 1), f32(2, 3, 7, 8), dynamic="x:0=n,2=h,3=w"),
    case("aten::adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, (1, 1)), f32(3, 7, 8), opsets=(13, 20)),
    case("aten::adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, (2, 4)), f32(2, 3, 6, 8), dynamic="x:0=n"),
    case("aten::adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, (6, 8)) + 1, f32(2, 3, 6, 8)),
    case("aten::adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, (3, 5)), f32(2, 3, 7, 8), dynamic="x:0=n"),
    case("aten::adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, (9, None)), f32(3, 7, 8)),
    case("aten::adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, 3), f32(2, 3, 7, 8), dynamic="x:2=h",
         opsets=(13, 20)),
    case("aten::adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, (3, 8)), f32(3, 7, 8), dynamic="x:1=h"),
    case("aten::adaptive_avg_pool1d", lambda x: F.adaptive_avg_pool1d(x, 5), f32(2, 3, 4), dynamic="x:2=t"),
    case("aten::adaptive_avg_pool3d", lambda x: F.adaptive_avg_pool3d(x, (3, 2, 4)), f32(2, 3, 4, 5, 6),
         dynamic="x:0=n,2=d,4=w"),
    case("aten::_adaptive_avg_pool2d", lambda x: torch.ops.aten._adaptive_avg_pool2d(x, [2, 2]), f32(2, 3, 6, 8)),
    case("aten::adaptive_avg_pool1d", lambda x: F.adaptive_avg_pool1d(x, 1), f32(2, 3, 7), dynamic="x:2=t"),
    case("aten::adaptive_avg_pool1d", lambda x: F.adaptive_avg_pool1d(x, 4), f32(2, 3, 7)),
    case("aten::adaptive_avg_pool1d", lambda x: F.adaptive_avg_pool1d(x, 4), f32(3, 8)),
    case("aten::adaptive_avg_pool3d", lambda x: F.adaptive_avg_pool3d(x, 1), f32(2, 3, 4, 5, 6)),
    case("aten::adaptive_avg_pool3d", lambda x: F.adaptive_avg_pool3d(x, (3, 2, 4)), f32(2, 3, 4, 5, 6)),
    case("aten::adaptive_avg_pool3d", lambda x: F.adaptive_avg_pool3d(x, (3, 5, 6)), f32(3, 4, 5, 6)),
    case("aten::_adaptive_avg_pool3d", lambda x: torch.ops.aten._adaptive_avg_pool3d(x, [2, 5, 3]), f32(1, 2, 4, 5, 6)),
    case("aten::adaptive_max_pool1d", lambda x: F.adaptive_max_pool1d(x, 1), f32(2, 3, 7), dynamic="x:2=t"),
    case("aten::adaptive_max_pool1d", lambda x: F.adaptive_max_pool1d(x, 4, return_indices=True), f32(2, 3, 8)),
    case("aten::adaptive_max_pool2d", lambda x: F.adaptive_max_pool2d(x, (2, 4)), f32(2, 3, 6, 8)),
    case("aten::adaptive_max_pool2d", lambda x: F.adaptive_max_pool2d(x, (3, 2), return_indices=True), f32(3, 6, 8)),
    case("aten::adaptive_max_pool2d", lambda x: F.adaptive_max_pool2d(x, 5), f32(2, 3, 6, 8), opsets=(13, 20)),
    case("aten::adaptive_max_pool2d", lambda x: F.adaptive_max_pool2d(x, (3, 4)), f32(2, 3, 6, 8),
         dynamic="x:0=n,2=h,3=w"),
    case("aten::adaptive_max_pool1d", lambda x: F.adaptive_max_pool1d(x, 3), f32(3, 7), dynamic="x:1=t"),
    case("aten::adaptive_max_pool2d", lambda x: F.adaptive_max_pool2d(x, 5, return_indices=True), f32(2, 3, 6, 8),
         refused="indices of adaptive max pooling"),
    case("aten::adaptive_max_pool3d", lambda x: F.adaptive_max_pool3d(x, 2), f32(1, 3, 4, 6, 8)),
    # one axis keeps its dynamic size
    case("aten::adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, (1, None)), f32(2, 3, 8, 9), dynamic="x:0=n,3=w"),
    case("aten::adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(F.avg_pool2d(x, 2), (None, 3)), f32(2, 3, 8, 9),
         dynamic="x:0=n,2=h,3=w", not_at={"h=1": "PyTorch refuses windows beyond the input"}),
    case("aten::adaptive_max_pool2d", lambda x: F.adaptive_max_pool2d(x, (None, 1)), f32(2, 3, 8, 9), dynamic="x:2=h,3=w",
         not_in_archives="torch.export fixes its sizes"),
]
