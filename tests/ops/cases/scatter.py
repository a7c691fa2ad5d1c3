"""Writing elements by position or mask: layouts, broadcast values, accumulation, reductions."""

import torch

from ops.case import boolean, case, f32, i64

TABLE = f32(4, 5, 6)
ROWS, COLUMNS = torch.tensor([0, -1, 2]), torch.tensor([4, 1, -3])
REPEATED = torch.tensor([1, 1, 0, 3])


SPOILED = torch.tensor([float("nan"), 1.0, float("inf"), float("nan")])

CASES = [
    case("aten::_unsafe_index_put", lambda x, v: torch.ops.aten._unsafe_index_put(x, [ROWS], v), f32(4), f32(3)),
    case("aten::copy", lambda x, y: torch.ops.aten.copy(x, y), f32(2, 3), i64(0, 9, 3)),
    case("aten::copy", lambda x, y: torch.ops.aten.copy(x, y), f32(2, 3), f32(1, 3), dynamic="x:0=n"),
    case("aten::index_add", lambda x, y: x.index_add(0, REPEATED, y), f32(4, 3), f32(4, 3, seed=1)),
    case("aten::index_add", lambda x, i, y: x.index_add(1, i, y, alpha=2), f32(2, 5), i64(0, 5, 3), f32(2, 3),
         dynamic="x:0=n y:0=n"),
    case("aten::index_add", lambda x, y: x.index_add(0, REPEATED, y), f32(4), f32(4, seed=1)),
    case("aten::index_add", lambda x, i, y: x.index_add(0, i, y), f32(6, 3), i64(0, 6, 4), f32(4, 3, seed=1),
         dynamic="x:1=t i:0=n y:0=n,1=t"),
    case("aten::index_add", lambda x, i, y: torch.zeros(6, x.shape[1]).index_add_(0, i, y), f32(2, 3), i64(0, 6, 4),
         f32(4, 3, seed=1), dynamic="x:1=t i:0=n y:0=n,1=t", recorded_as="aten::index_add_"),
    case("aten::index_add", lambda x, i, y: x.index_add(1, i, y[:, : i.shape[0]]), f32(2, 6, 3), i64(0, 6, 4),
         f32(2, 5, 3, seed=1), dynamic="x:0=b,2=t y:0=b,2=t"),
    case("aten::index_add", lambda x, y: x.index_add(0, REPEATED, y), f32(4), f32(4), opsets=(13,), refused="opset 16"),
    case("aten::index_add", lambda x, i, y: x.index_add(0, i, y), f32(), torch.tensor([0]), f32(seed=1)),
    case("aten::index_add", lambda x, i, y: x.index_add(-1, i, y), f32(), torch.tensor(0), f32(seed=1)),
    case("aten::index_copy", lambda x, i, y: x.index_copy(0, i, y), f32(), torch.tensor(0), f32(seed=1)),
    case("aten::index_copy", lambda x, i, y: x.index_copy(0, i, y), f32(3), torch.tensor(1), f32(seed=1)),
    case("aten::index_fill.int_Scalar", lambda x, i: x.index_fill(0, i, 7), f32(), torch.tensor([0])),
    case("aten::index_copy", lambda x, y: x.index_copy(1, ROWS % 5, y), f32(2, 5), f32(2, 3)),
    case("aten::index_fill.int_Scalar", lambda x: x.index_fill(1, ROWS % 5, 7), f32(2, 5), dynamic="x:0=n"),
    case("aten::index_fill.int_Tensor", lambda x, v: x.index_fill(0, ROWS % 4, v), f32(4, 2), f32()),
    case("aten::index_put", lambda x, v: torch.ops.aten.index_put(x, [ROWS], v), f32(4, 5), f32(3, 5)),
    case("aten::index_put", lambda x, v: torch.ops.aten.index_put(x, [ROWS], v), f32(4, 5), f32(1)),
    case("aten::index_put", lambda x, v: torch.ops.aten.index_put(x, [ROWS, COLUMNS], v), TABLE, f32(3, 6)),
    case("aten::index_put", lambda x, v: torch.ops.aten.index_put(x, [None, ROWS, COLUMNS], v), TABLE, f32(4, 3),
         dynamic="x:0=n v:0=n"),
    case("aten::index_put", lambda x, v: torch.ops.aten.index_put(x, [None, ROWS], v), TABLE, f32(4, 3, 6)),
    case("aten::index_put", lambda x, v: torch.ops.aten.index_put(x, [ROWS, None, COLUMNS], v), TABLE, f32(3, 5)),
    case("aten::index_put", lambda x, v: torch.ops.aten.index_put(x, [REPEATED], v, True), f32(4, 5), f32(4, 5)),
    case("aten::index_put", lambda x, m: torch.ops.aten.index_put(x, [m], torch.tensor(7.0)), f32(4, 5), boolean(4, 5),
         dynamic="x:0=n m:0=n"),
    case("aten::index_put", lambda x, m: torch.ops.aten.index_put(x, [None, m], torch.tensor([7.0])), TABLE,
         boolean(5)),
    case("aten::index_put", lambda x, m, v: torch.ops.aten.index_put(x, [m], v), f32(4, 2),
         torch.tensor([True, False, True, False]), f32(2, 2)),
    case("aten::index_put", lambda x, m, v: torch.ops.aten.index_put(x, [m], v), f32(2, 2),
         torch.tensor([[True, False], [True, True]]), f32(3)),
    case("aten::index_put", lambda x, i: torch.ops.aten.index_put(x, [i], torch.tensor(1)), i64(0, 9, 6), i64(0, 6, 2),
         dynamic="i:0=n"),
    case("aten::index_put.hacked_twin", 
         "def forward(self, x, i, v):\n  return torch.index_put(x, [i], v)", f32(4), ROWS, f32(3)),
    case("aten::masked_scatter", lambda x, m, y: x.masked_scatter(m, y), f32(2, 3), boolean(2, 3), f32(6)),
    case("aten::masked_scatter", lambda x, m, y: x.masked_scatter(m, y), f32(3), boolean(2, 3), f32(6)),
    case("aten::masked_scatter", lambda x, m, y: x.masked_scatter(m, y), f32(3, 4), boolean(3, 1), f32(4, 4),
         dynamic="x:0=n m:0=n y:0=k"),
    case("aten::scatter.reduce", lambda x, y: torch.scatter(x, 0, REPEATED, y, reduce="add"), f32(4), f32(4)),
    case("aten::scatter.reduce", lambda x, y: torch.scatter(x, 0, REPEATED, y, reduce="multiply"), f32(4), f32(4)),
    case("aten::scatter.src", lambda x, i, y: x.scatter(0, i, y), f32(), i64(0, 1), f32(seed=1)),
    case("aten::scatter_add", lambda x, i, y: x.scatter_add(-1, i, y), f32(), i64(0, 1, 1), f32(seed=1)),
    case("aten::index_reduce", lambda x, i, y: x.index_reduce(0, i, y, "prod"), f32(), i64(0, 1), f32(seed=1)),
    case("aten::scatter.src", lambda x, i, y: x.scatter(1, i, y), f32(3, 4), torch.tensor([[0, 2], [3, 1]]), f32(3, 4)),
    case("aten::scatter.src", lambda x, i, y: x.scatter(1, i, y), f32(3, 4), i64(0, 4, 3, 1), f32(3, 1),
         dynamic="x:0=n i:0=n y:0=n"),
    case("aten::scatter.value", lambda x, i: x.scatter(1, i, 1.5), f32(3, 4), i64(0, 4, 3, 2),
         dynamic="x:0=n i:0=n"),
    case("aten::scatter.value", lambda x, i: torch.zeros_like(x).scatter(-1, i, 1.0), f32(3, 4), i64(0, 4, 3, 1)),
    case("aten::scatter.value_reduce", lambda x: torch.scatter(x, 0, REPEATED, 2.0, reduce="multiply"), f32(4)),
    case("aten::scatter.value", lambda x, i: x.scatter(0, i, 1), boolean(4), i64(0, 4, 2)),
    case("aten::index_put", lambda x, i: torch.ops.aten.index_put(x, [i], torch.tensor(True)), boolean(4), i64(0, 4,
         2)),
    case("aten::scatter_add", lambda x, y: x.scatter_add(0, REPEATED, y), f32(4), f32(5)),
    case("aten::scatter_add", lambda x, i, y: x.scatter_add(1, i, y), f32(2, 4), i64(0, 4, 2, 6), f32(2, 6)),
    *[case("aten::scatter_reduce.two", lambda x, y, how=how: x.scatter_reduce(0, REPEATED, y, how), f32(4), f32(4),
           other_inputs=[(SPOILED, torch.arange(4.0)), (torch.arange(4.0), SPOILED)]) for how in ("sum", "prod", "amax", "amin")],
    *[case("aten::scatter_reduce.two", lambda x, y, how=how: x.scatter_reduce(0, REPEATED, y, how, include_self=False),
           f32(4), f32(4), other_inputs=[(SPOILED, torch.arange(4.0)), (torch.arange(4.0), SPOILED)])
      for how in ("sum", "prod", "amax", "amin")],
    *[case("aten::scatter_reduce.two", lambda x, i, y, keep=keep: x.scatter_reduce(1, i, y, "mean", include_self=keep),
           given(2, 5), i64(0, 5, 2, 4), given(2, 4, seed=1), dynamic="x:0=n i:0=n y:0=n")
      for keep in (True, False) for given in (f32, lambda *shape, seed=0: i64(-9, 9, *shape, seed=seed))],
    *[case("aten::index_reduce", lambda x, i, y, how=how, keep=keep: x.index_reduce(1, i, y, how, include_self=keep),
           f32(2, 5, 3), torch.tensor([0, 3, 3, 1]), f32(2, 4, 3, seed=1),
           other_inputs=[(torch.ones(2, 5, 3), torch.tensor([4, 0, 0, 1]), torch.full((2, 4, 3), float("nan")))])
      for how in ("mean", "prod", "amax", "amin") for keep in (True, False)],
    case("aten::put", lambda x, i, y: torch.put(x, i, y), f32(3, 4), torch.tensor([[0, 5], [-1, 7]]),
         f32(2, 2, seed=1)),
    case("aten::put", lambda x, i, y: torch.put(x, i, y, accumulate=True), f32(3, 4), torch.tensor([0, 5, 5]),
         f32(3, seed=1)),
]
