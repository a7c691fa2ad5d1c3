"""Sorting and ranks with ties, over static and dynamic axes."""

import torch

from ops.case import boolean, case, f32, i32, i64, per_run, u8

TIES = torch.tensor([[3.0, 1.0, 2.0, 1.0], [0.0, 0.0, -1.0, 0.0]])
WITH_NAN = torch.tensor([[3.0, float("nan"), 1.0, 2.0], [float("nan")] * 4, [0.0, 4.0, 4.0, -1.0]])
BOUNDS = per_run(torch.tensor([1, 3, 7]), torch.tensor([0, 0, 5]))
RUNS = torch.tensor([2, 2, 1, 1, 1, 2, 0])

NAN_AND_INF = torch.tensor([[1.0, float("inf"), float("nan"), 2.0, float("nan")], [4.0, -float("inf"), 3.0, 2.0, 1.0]])

TIED, ASCEND = "PyTorch returns the index of any of several equal elements", "the searched sequence must ascend"


def any_of_ties(key: str, function, input, **options):
    """Creates a case whose indices are unique only without ties; small integers often tie."""
    return case(key, function, input, finite=TIED, not_as={"int": TIED}, **options)


CASES = [
    case("aten::median", lambda x: torch.median(x), f32(2, 5), other_inputs=[(NAN_AND_INF,)]),
    case("aten::median.dim", lambda x: torch.median(x, 1), f32(2, 5), other_inputs=[(NAN_AND_INF,)]),
    case("aten::median.dim", lambda x: torch.median(x, 0, True)[0], f32(2, 5), other_inputs=[(NAN_AND_INF,)]),
    case("aten::sort.stable", lambda x: torch.sort(x, stable=True), f32(2, 5), other_inputs=[(NAN_AND_INF,)]),
    case("aten::topk", lambda x: torch.topk(x, 2, dim=0, largest=False)[0], f32(2, 5), other_inputs=[(NAN_AND_INF,)]),
    case("aten::sort", lambda x: torch.sort(x), f32(2, 5), dynamic="x:0=n,1=t"),
    case("aten::sort", lambda x: torch.sort(x, 0, descending=True), i64(-99, 99, 6, 3)),
    case("aten::sort", lambda x: torch.sort(x), f32()),
    case("aten::sort.stable", lambda x: torch.sort(x, stable=True, dim=-1), TIES),
    case("aten::sort.stable", lambda x: torch.sort(x, stable=True, dim=-1, descending=True), TIES),
    case("aten::sort.stable", lambda x: torch.sort(x, stable=True, dim=0), boolean(6)),
    case("aten::sort.stable", lambda x: torch.sort(x, stable=True, dim=0), u8(0, 9, 6)),
    case("aten::argsort", lambda x: torch.argsort(x, 1, True), f32(2, 5)),
    case("aten::argsort.stable", lambda x: torch.argsort(x, stable=True, dim=1), TIES),
    case("aten::msort", lambda x: torch.msort(x), f32(5, 2)),
    any_of_ties("aten::topk", lambda x: torch.topk(x, 3), f32(2, 5), dynamic="x:0=n,1=t"),
    case("aten::topk", lambda x: torch.topk(x, 2, dim=0, largest=False), i32(-999, 999, 5, 2)),
    case("aten::topk", lambda x: torch.topk(x, x.shape[1] // 2)[0], f32(2, 6), dynamic="x:1=t"),
    any_of_ties("aten::kthvalue", lambda x: torch.kthvalue(x, 2, 1), f32(2, 5)),
    any_of_ties("aten::kthvalue", lambda x: torch.kthvalue(x, 1, 0, True), f32(2, 5)),
    case("aten::kthvalue", lambda x: torch.kthvalue(x, 1), f32()),
    case("aten::median", lambda x: torch.median(x), f32(2, 3)),
    case("aten::median.dim", lambda x: torch.median(x, 1), f32(2, 5)),
    case("aten::median.dim", lambda x: torch.median(x, -1, True), f32()),
    case("aten::median.dim", lambda x: torch.median(x, 0, True), f32(4, 3)),
    case("aten::median.dim", lambda x: torch.median(x, 0), f32(4, 3), dynamic="x:0=n", opsets=(13, 20)),
    case("aten::median.dim", lambda x: torch.median(x, 1, True), f32(4, 3), dynamic="x:1=n"),
    case("aten::median", lambda x: torch.median(x), f32(4, 3), dynamic="x:0=n",
         not_at={"n=0": "the median of an empty tensor is undefined; PyTorch returns NaN"}),
    case("aten::_unique", lambda x: torch._unique(x, True, True), i64(0, 4, 9)),
    case("aten::_unique2", lambda x: torch.unique(x, return_inverse=True, return_counts=True), i64(0, 4, 3, 4)),
    case("aten::_unique2", lambda x: torch.unique(x), f32(6),
         finite="ONNX Runtime's Unique merges all numbers if one is NaN"),
    case("aten::unique_dim", lambda x: torch.unique(x, dim=0, return_inverse=True, return_counts=True),
         i64(0, 2, 6, 2)),
    case("aten::bucketize.Tensor", lambda x, b: torch.bucketize(x, b), i64(0, 9, 2, 6), BOUNDS),
    case("aten::bucketize.Tensor", lambda x, b: torch.bucketize(x, b, right=True, out_int32=True), i64(0, 9, 6),
         BOUNDS, dynamic="x:0=n"),
    *[case("aten::bucketize.Tensor", lambda x, b, right=right: torch.bucketize(x, b, right=right), f32(4),
           per_run(torch.tensor([-1.0, 0.0, 2.0]), torch.tensor([-0.5, -0.5, 0.3])), finite=ASCEND,
           other_inputs=[(torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0]), torch.tensor([0.0, 0.0, 1.0]))])
      for right in (False, True)],
    case("aten::searchsorted.Tensor", lambda s, x: torch.searchsorted(s, x),
         per_run(torch.tensor([[0.0, 1, 2], [-1, 0, 1]]), torch.tensor([[-2.0, 0, 0], [0.1, 0.5, 3]])),
         f32(2, 5), dynamic="x:1=n", finite=ASCEND,
         other_inputs=[(torch.tensor([[0.0, 1, 1], [-1, -1, 2]]), torch.tensor([[0.0, 1, 2], [-1, 2, 0]]))]),
    case("aten::searchsorted.Tensor", lambda s, x: torch.searchsorted(s, x, side="right"),
         per_run(torch.tensor([0.0, 1, 2]), torch.tensor([-1.0, -1, 0.5])),
         f32(2, 5), finite=ASCEND, other_inputs=[(torch.tensor([0.0, 1, 1]), torch.arange(-1.0, 9).reshape(2, 5))]),
    case("aten::nanmedian", lambda x: torch.nanmedian(x), WITH_NAN),
    case("aten::nanmedian", lambda x: torch.nanmedian(x), i64(0, 9, 5)),
    case("aten::nanmedian.dim", lambda x: torch.nanmedian(x, 1)[0], WITH_NAN),
    any_of_ties("aten::nanmedian.dim", lambda x: torch.nanmedian(x, 1), WITH_NAN[[0, 2]]),
    any_of_ties("aten::nanmedian.dim", lambda x: torch.nanmedian(x, 0, keepdim=True), f32(4, 3), dynamic="x:0=n"),
    case("aten::mode", lambda x: torch.mode(x), TIES,
         finite="the count of NaN depends on the runtime, because NaN equals no number"),
    case("aten::mode", lambda x: torch.mode(x, 0, keepdim=True), i64(0, 3, 7, 4), dynamic="x:0=n"),
    case("aten::mode", lambda x: torch.mode(x), f32()),
    case("aten::unique_consecutive", lambda x: torch.unique_consecutive(x, return_inverse=True, return_counts=True),
         RUNS, opsets=(13, 20)),
    case("aten::unique_consecutive", lambda x: torch.unique_consecutive(x), i64(0, 2, 3, 4)),
    case("aten::unique_consecutive",
         lambda x: torch.unique_consecutive(x, return_inverse=True, return_counts=True, dim=0), RUNS[:, None] + RUNS),
    case("aten::searchsorted.Scalar", lambda x: torch.searchsorted(x, 0.3, right=True),
         per_run(torch.tensor([0.1, 0.3, 0.5]), torch.tensor([0.3, 0.3, 0.4])), finite=ASCEND),
    case("aten::searchsorted.Tensor", lambda x, s, y: torch.searchsorted(x, y, sorter=s),
         per_run(torch.tensor([0.5, 0.1, 0.3]), torch.tensor([-0.3, 0.9, 0.2])),
         per_run(torch.tensor([1, 2, 0]), torch.tensor([0, 2, 1])), f32(4), finite=ASCEND),
]
