"""Quantiles: every interpolation, one or several quantiles, NaN, dynamic axes."""

import torch

from ops.case import between, case, f32

nan, infinity = float("nan"), float("inf")
WITH_NAN = torch.tensor([[1.0, nan, 3.0, 2.0, 9.0], [nan, nan, nan, nan, nan], [infinity, 5.0, nan, 4.0, -infinity],
                      [3.0, 1.0, 2.0, 0.0, -1.0]])
SEVERAL = torch.tensor([0.0, 0.3, 0.5, 1.0])
MODES = ["linear", "lower", "higher", "midpoint", "nearest"]


def interpolated(mode):
    return lambda x: torch.quantile(x, 0.3, 1, interpolation=mode)


def interpolated_without_nan(mode):
    return lambda x: torch.nanquantile(x, 0.3, 1, interpolation=mode)


CASES = [
    *(case("aten::quantile.scalar", interpolated(mode), f32(3, 6), dynamic="x:0=b,1=n") for mode in MODES),
    *(case("aten::nanquantile.scalar", interpolated_without_nan(mode), WITH_NAN) for mode in MODES[1:3]),
    case("aten::quantile.scalar", lambda x: torch.quantile(x, 0.75), f32(3, 5), dynamic="x:0=n", opsets=(13, 20)),
    case("aten::quantile.scalar", lambda x: torch.quantile(x, 0.25, 0, True), f32(3, 5)),
    case("aten::quantile.scalar", lambda x: torch.quantile(x, 0.25, keepdim=True), f32(3, 5)),
    case("aten::quantile.scalar", lambda x: torch.quantile(x, 0.5, 1), WITH_NAN),
    case("aten::quantile", lambda x: torch.quantile(x, SEVERAL, 1), f32(3, 5, 2), dynamic="x:1=n"),
    case("aten::quantile", lambda x: torch.quantile(x, SEVERAL, 0, True), f32(3, 5)),
    case("aten::quantile", lambda x, q: torch.quantile(x, q), f32(3, 5), between(0.0, 0.9, 4), dynamic="q:0=k"),
    case("aten::quantile", lambda x, q: torch.quantile(x, q, -1), f32(3, 5), torch.tensor(0.4)),
    case("aten::nanquantile.scalar", lambda x: torch.nanquantile(x, 0.5, 1), f32(3, 6), dynamic="x:1=n"),
    case("aten::nanquantile", lambda x: torch.nanquantile(x, SEVERAL, 1, True), WITH_NAN[::3], opsets=(13, 20)),
    case("aten::nanquantile", lambda x: torch.nanquantile(x, SEVERAL), WITH_NAN[[0, 3]]),
]
