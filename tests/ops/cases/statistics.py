"""Variance, deviation, histograms and counts."""

import torch
import torch.nn.functional as F

from ops.case import between, case, f32, f64, i32, i64

TOLERANCE = (1e-4, 1e-4)
EXPERTS = torch.tensor([3.0, 0.0, 7.0, 7.0, 1.0, 3.0, 9.0, -1.0])
RUNNING = "PyTorch's running mean turns an infinity into NaN"
SMALL = [(0, 4), (3, 0), (1, 1)]


def spread(key, function, *inputs, **options):
    return case(key, function, *inputs, tolerance=TOLERANCE, **options)


CASES = [
    *(spread(key, function, f32(3, 4), dynamic="x:0=n,1=m", other_inputs=[(torch.zeros(shape),) for shape in SMALL])
      for key, function in {"aten::var.correction": lambda x: torch.var(x, 1, correction=1),
                            "aten::std.correction": lambda x: torch.std(x, 0, correction=1)}.items()),
    spread("aten::var", lambda x: torch.ops.aten.var(x, False), f32(2, 3, 4)),
    spread("aten::var", lambda x: torch.ops.aten.var(x, True), f32(2, 3, 4), dynamic="x:0=n"),
    spread("aten::var.dim", lambda x: torch.var(x, 1, True, True), f32(2, 3, 4)),
    spread("aten::var.dim", lambda x: torch.var(x, (0, 2)), f32(2, 3, 4), dynamic="x:0=n,2=t", opsets=(13, 20)),
    spread("aten::var.correction", lambda x: torch.var(x, 1, correction=0, keepdim=True), f32(2, 3, 4),
           dynamic="x:1=n"),
    spread("aten::std", lambda x: torch.ops.aten.std(x, True), f32(2, 3, 4)),
    spread("aten::std.dim", lambda x: torch.std(x, -1, False), f32(2, 3, 4)),
    spread("aten::std.correction", lambda x: torch.std(x, -1, correction=2), f32(2, 3, 4)),
    spread("aten::var.correction", lambda x: torch.var(x, 1, correction=3), f32(4, 2)),
    spread("aten::var_mean", lambda x: torch.var_mean(x, False), f32(2, 3, 4), finite=RUNNING),
    spread("aten::var_mean.dim", lambda x: torch.var_mean(x, 1, True), f32(2, 3, 4), finite=RUNNING),
    spread("aten::var_mean.correction", lambda x: torch.var_mean(x, 1, correction=0, keepdim=True), f32(2, 3, 4),
          finite=RUNNING),
    spread("aten::std_mean", lambda x: torch.std_mean(x, False), f32(2, 3, 4), finite=RUNNING),
    spread("aten::std_mean.dim", lambda x: torch.std_mean(x, 1, True), f32(2, 3, 4), finite=RUNNING),
    spread("aten::std_mean.correction", lambda x: torch.std_mean(x, 1, correction=0), f32(2, 3, 4), finite=RUNNING),
    case("aten::histc", lambda x: torch.histc(x, bins=8, min=0, max=7), EXPERTS, opsets=(13, 20)),
    case("aten::histc", lambda x: torch.histc(x, bins=5, min=-1, max=1), f32(4, 10), dynamic="x:0=n"),
    case("aten::histc", lambda x: torch.histc(x, bins=7), f32(40)),
    case("aten::bincount", lambda x: torch.bincount(x), i64(0, 6, 20), dynamic="x:0=n",
         not_at={"n=0": "OneHot requires at least one class"}),
    case("aten::bincount", lambda x: torch.bincount(x, minlength=9), i32(0, 6, 20)),
    case("aten::bincount", lambda x, y: torch.bincount(x, minlength=y.size(0)), i64(0, 6, 20), f32(9), dynamic="x:0=n y:0=m",
         not_at={"m=n=0": "OneHot requires at least one class"}),
    case("aten::bincount", lambda x, w: torch.bincount(x, w, 4), i64(0, 6, 20), between(0, 1, 20),
         finite="weights are summed as products with 0 and 1"),
    case("aten::bincount", lambda x, w: torch.bincount(x, w), i64(0, 6, 20), f64(20), tolerance=(1e-9, 1e-9),
         finite="weights are summed as products with 0 and 1"),
    spread("aten::std.dim", lambda x: torch.std(x, -1, False, keepdim=True), f32()),
    case("aten::one_hot", lambda x: F.one_hot(x, 6), i64(0, 6)),
    case("aten::one_hot", lambda x: F.one_hot(x, 6), i64(0, 6, 2, 3), dynamic="x:0=n"),
    case("aten::one_hot", lambda x, n: F.one_hot(x, n[0]), i64(0, 3, 2, 3), torch.tensor([5]),
         not_in_archives="torch.export requires the number of classes as a Python number"),
    case("aten::one_hot", lambda x: F.one_hot(x), i64(0, 6, 5), not_in_archives="torch.export cannot count the classes"),
]
