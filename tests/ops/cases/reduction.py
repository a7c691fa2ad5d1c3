"""Reductions and running sums: axes, keepdim, dtypes, booleans, scalars, ties."""

import torch

from ops.case import between, boolean, case, f16, f32, f64, i32, i64, u8

TIES = torch.tensor([[1.0, 3.0, 3.0], [2.0, 2.0, 0.0]])
SCALAR = torch.tensor(2.5)
NAN, INF = float("nan"), float("inf")
NAN_AND_INF = torch.tensor([[1, NAN, INF, 2], [-INF, 0, NAN, NAN], [3, -INF, INF, -1]])
SPECIAL_INPUTS = ((NAN_AND_INF,), (NAN_AND_INF.flip(0),), (NAN_AND_INF.flip(1),))
EMPTY_INPUTS = ((torch.zeros(0, 4),), (torch.zeros(3, 0),), (torch.zeros(0, 0),))


def with_special_values(key: str, function):
    """Traces finite numbers; compares NaN and infinities at all positions."""
    return case(key, function, f32(3, 4), other_inputs=SPECIAL_INPUTS)


def with_empty_axes(key: str, function, **options):
    """Traces three rows of four; compares empty axes."""
    return case(key, function, f32(3, 4), dynamic="x:0=n,1=m", other_inputs=EMPTY_INPUTS, **options)


CASES = [
    *(with_special_values(key, function) for axis in (0, 1) for key, function in {
        "aten::amax": lambda x, axis=axis: x.amax(axis),
        "aten::amin": lambda x, axis=axis: x.amin(axis, keepdim=True),
        "aten::aminmax": lambda x, axis=axis: tuple(torch.aminmax(x, dim=axis)),
        "aten::argmax": lambda x, axis=axis: x.argmax(axis),
        "aten::argmin": lambda x, axis=axis: x.argmin(axis, keepdim=True),
        "aten::max.dim": lambda x, axis=axis: tuple(x.max(axis)),
        "aten::min.dim": lambda x, axis=axis: tuple(x.min(axis, keepdim=True)),
    }.items()),
    with_special_values("aten::amax", lambda x: x.amax((0, 1))),
    with_special_values("aten::logsumexp", lambda x: x.logsumexp(1)),
    with_special_values("aten::argmax", lambda x: x.argmax()),
    with_special_values("aten::argmin", lambda x: x.argmin()),
    with_special_values("aten::max", lambda x: x.max()),
    with_special_values("aten::min", lambda x: x.min()),
    case("aten::max.dim", lambda x: tuple(x.max(0)), f16(3, 4), other_inputs=[(NAN_AND_INF.flip(1).half(),)]),
    case("aten::argmin", lambda x: x.argmin(1), f64(3, 4), other_inputs=[(NAN_AND_INF.double(),)]),
    case("aten::argmax", lambda x: x.argmax(1), f16(3, 4), other_inputs=[(NAN_AND_INF.flip(1).half(),)]),
    with_empty_axes("aten::mean", lambda x: x.mean()),
    with_empty_axes("aten::mean.dim", lambda x: x.mean(0)),
    with_empty_axes("aten::mean.dim", lambda x: x.mean(1, keepdim=True), opsets=(13, 20)),
    with_empty_axes("aten::sum", lambda x: x.sum()),
    with_empty_axes("aten::sum.dim_IntList", lambda x: x.sum(1)),
    with_empty_axes("aten::prod.dim_int", lambda x: x.prod(1)),
    with_empty_axes("aten::any.dim", lambda x: x.any(1)),
    with_empty_axes("aten::all.dim", lambda x: x.all(0)),
    with_empty_axes("aten::logsumexp", lambda x: x.logsumexp(1)),
    with_empty_axes("aten::nansum", lambda x: x.nansum(1)),
    with_empty_axes("aten::count_nonzero", lambda x: x.count_nonzero(0)),
    with_empty_axes("aten::cumsum", lambda x: x.cumsum(1)),
    case("aten::all", lambda x: x.all(), boolean(2, 3)),
    case("aten::all.dim", lambda x: x.all(1), i64(0, 3, 4, 2)),
    case("aten::all.dim", lambda x: x.all(-1, keepdim=True), boolean(4, 2), dynamic="x:0=n"),
    case("aten::all.dims", lambda x: torch.all(x, (0, 2)), boolean(2, 3, 2)),
    case("aten::amax", lambda x: x.amax((0, 2)), f32(2, 3, 4), opsets=(13, 20)),
    case("aten::amax", lambda x: x.amax(), f32(2, 3)),
    case("aten::amax", lambda x: x.amax(-1, keepdim=True), i64(-9, 9, 2, 3)),
    case("aten::amin", lambda x: x.amin(1), f32(2, 3, 4), dynamic="x:0=n,1=m"),
    case("aten::amin", lambda x: x.amin(1), boolean(4, 3)),
    case("aten::aminmax", lambda x: tuple(torch.aminmax(x, dim=1)), f32(2, 3)),
    case("aten::aminmax", lambda x: tuple(torch.aminmax(x, dim=0, keepdim=True)), f32(2, 3)),
    case("aten::aminmax", lambda x: tuple(torch.aminmax(x)), f32(2, 3)),
    case("aten::any", lambda x: x.any(), boolean(2, 3)),
    case("aten::any", lambda x: x.any(), torch.tensor([0.0, 0.25, 0.0])),
    case("aten::any", lambda x: x.any(), u8(0, 2, 3)),
    case("aten::any", lambda x: x[:0].any(), f32(2, 3)),  # false for an empty tensor
    case("aten::all", lambda x: x[:0].all(), f32(2, 3)),
    case("aten::any.dim", lambda x: x.any(0), boolean(2, 3), opsets=(13, 20)),
    case("aten::any.dims", lambda x: torch.any(x, (0, 2), keepdim=True), boolean(2, 3, 2)),
    case("aten::argmax", lambda x: x.argmax(), f32(3, 4)),
    case("aten::argmax", lambda x: x.argmax(keepdim=True), f32(3, 4)),
    case("aten::argmax", lambda x: x.argmax(-1), TIES),
    case("aten::argmax", lambda x: x.argmax(0, keepdim=True), i64(-9, 9, 3, 4), dynamic="x:0=n,1=m"),
    case("aten::argmin", lambda x: x.argmin(1), TIES),
    case("aten::argmin", lambda x: x.argmin(), f32(3, 4), dynamic="x:0=n"),
    case("aten::argmax", lambda x: x.argmax(), SCALAR),
    case("aten::count_nonzero", lambda x: x.count_nonzero(), i64(0, 2, 3, 4)),
    case("aten::count_nonzero", lambda x: x.count_nonzero(1), i64(0, 2, 3, 4), dynamic="x:0=n"),
    case("aten::count_nonzero.dim_IntList", lambda x: x.count_nonzero((0, 1)), f32(3, 4)),
    case("aten::cumsum", lambda x: x.cumsum(1), f32(2, 5)),
    case("aten::cumsum", lambda x: x.cumsum(-1), boolean(2, 5), dynamic="x:1=n"),
    case("aten::cumsum", lambda x: x.cumsum(0), i32(-9, 9, 5)),
    case("aten::cumsum", lambda x: x.cumsum(0, dtype=torch.float32), i64(-9, 9, 5)),
    case("aten::cumsum", lambda x: x.cumsum(0, dtype=torch.int32), i64(-9, 9, 5)),
    case("aten::nansum", lambda x: x.nansum(), torch.tensor([[1.0, float("nan")], [2.0, float("inf")]])),
    case("aten::nansum", lambda x: x.nansum((0, 2), True), f32(2, 3, 4), opsets=(13, 20)),
    case("aten::nansum", lambda x: x.nansum(0), i32(-9, 9, 5)),
    case("aten::logsumexp", lambda x: x.logsumexp(1), between(-200, 200, 3, 4), opsets=(13, 20)),
    case("aten::logsumexp", lambda x: x.logsumexp((0, 1), keepdim=True), f32(3, 4)),
    case("aten::max", lambda x: x.max(), f32(3, 4)),
    case("aten::max", lambda x: x.max(), i64(-9, 9, 3, 4)),
    case("aten::max", lambda x: x.max(), boolean(4)),
    case("aten::max", lambda x: x.max(), u8(0, 200, 4)),
    case("aten::max.dim", lambda x: tuple(x.max(1)), TIES, opsets=(13, 20)),
    case("aten::max.dim", lambda x: tuple(x.max(0, keepdim=True)), i64(-9, 9, 3, 4)),
    case("aten::max.dim", lambda x: x.max(-1)[0], f32(3, 4), dynamic="x:0=n,1=m"),
    case("aten::max.dim", lambda x: tuple(x.max(0)), SCALAR),
    case("aten::mean", lambda x: x.mean(), f32(3, 4)),
    case("aten::mean", lambda x: x.mean(dtype=torch.float32), i64(-9, 9, 3, 4)),
    case("aten::mean.dim", lambda x: x.mean((-1, -2)), f32(2, 3, 4), opsets=(13, 20)),
    case("aten::mean.dim", lambda x: x.mean(1, keepdim=True), f32(2, 3, 4), dynamic="x:0=n,1=m"),
    case("aten::mean.dim", lambda x: x.mean(0), SCALAR),
    case("aten::min", lambda x: x.min(), f32(3, 4)),
    case("aten::min.dim", lambda x: tuple(x.min(1)), TIES),
    case("aten::prod", lambda x: x.prod(), f32(2, 3)),
    case("aten::prod", lambda x: x.prod(), i32(1, 4, 6)),
    case("aten::prod.dim_int", lambda x: x.prod(1), f32(2, 3), opsets=(13, 20)),
    *(case("prims::prod", lambda x, axes=axes: torch.ops.prims.prod(x, axes), f32(2, 3, 4), dynamic="x:0=n",
           not_in_traces="Python registers it") for axes in ([1], [0, 2])),
    case("aten::prod.dim_int", lambda x: x.prod(1, keepdim=True), boolean(4, 3)),
    case("aten::sum", lambda x: x.sum(), f32(2, 3)),
    case("aten::sum", lambda x: x.sum(), boolean(2, 3)),
    case("aten::sum", lambda x: x.sum(), i32(-9, 9, 2, 3)),
    case("aten::sum", lambda x: x.sum(dtype=torch.float32), i64(-9, 9, 2, 3)),
    case("aten::sum.dim_IntList", lambda x: x.sum(1), f32(2, 3, 4), dynamic="x:0=n,1=m"),
    case("aten::sum.dim_IntList", lambda x: x.sum((0, -1), keepdim=True), f32(2, 3, 4)),
    case("aten::sum.dim_IntList", lambda x: x.sum(0), boolean(4, 3)),
    case("aten::sum.dim_IntList", lambda x: x.sum(0), SCALAR),
    case("aten::sum.dim_IntList", lambda x: torch.sum(x, dim=()), f32(2, 3)),
]
