"""Reductions of segments of rows, each to one row."""

import torch

from ops.case import case, f32, per_run

LENGTHS = per_run(torch.tensor([1, 3, 2]), torch.tensor([4, 0, 2]))
OFFSETS = per_run(torch.tensor([0, 1, 4, 6]), torch.tensor([1, 1, 3, 5]))
REDUCTIONS = ("sum", "mean", "max", "min", "prod")


def reduced(reduction: str, bounds: str, **options):
    return lambda x, n: torch.segment_reduce(x, reduction, axis=0, **{bounds: n}, **options)


CASES = [
    *(case("aten::segment_reduce", reduced(each, "lengths"), f32(6, 2), LENGTHS) for each in REDUCTIONS),
    *(case("aten::segment_reduce", reduced(each, "offsets"), f32(6, 2), OFFSETS) for each in REDUCTIONS),
    *(case("aten::segment_reduce", reduced(each, "lengths", initial=0.5), f32(6), LENGTHS) for each in REDUCTIONS),
    # Rows after the last segment, which PyTorch allows with unsafe=True.
    *(case("aten::segment_reduce", reduced(each, "lengths", unsafe=True), f32(8, 2), LENGTHS) for each in REDUCTIONS),
    case("aten::segment_reduce", reduced("sum", "lengths"), f32(6, 2, 3), LENGTHS, opsets=(16, 20)),
    case("aten::segment_reduce", reduced("max", "lengths"), f32(6, 2), LENGTHS, opsets=(17,), refused="before opset 18"),
    case("aten::segment_reduce", lambda x: torch.segment_reduce(x, "sum", lengths=torch.tensor([[2, 1], [0, 3]]), axis=1),
         f32(2, 3), refused="axis other than the first"),
]
