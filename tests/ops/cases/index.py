"""Reading elements by position or mask: index layouts, negative positions, masks over several axes, broadcasting."""

import torch

from ops.case import boolean, case, f32, i32, i64

TABLE = f32(4, 5, 6)
ROWS, COLUMNS = i64(-4, 4, 3, seed=1), i64(-5, 5, 3, seed=2)

CASES = [
    case("aten::_unsafe_index.Tensor", lambda x, i: torch.ops.aten._unsafe_index(x, [None, i]), TABLE, COLUMNS),
    case("aten::_unsafe_index.Tensor_hacked_twin", 
         "def forward(self, x, i):\n  return torch._unsafe_index(x, [i])", TABLE, ROWS),
    case("aten::argwhere", lambda x: torch.argwhere(x), boolean(3, 4)),
    case("aten::gather", lambda x, i: x.gather(1, i), f32(3, 4), i64(0, 4, 2, 3)),
    case("aten::gather", lambda x, i: x.gather(-1, i), f32(3, 4), i64(0, 4, 3, 1), dynamic="x:0=n i:0=n"),
    case("aten::index.Tensor", lambda x, i: x[i], TABLE, ROWS),
    case("aten::index.Tensor", lambda x, i: x[i], TABLE, i32(0, 4, 2, 3)),
    case("aten::index.Tensor", lambda x, i: x[:, i], TABLE, i64(0, 5, 2, 3), dynamic="x:0=n i:0=m"),
    case("aten::index.Tensor", lambda x, i, j: x[i, j], TABLE, ROWS, COLUMNS),
    case("aten::index.Tensor", lambda x, i, j: x[:, i, j], TABLE, COLUMNS, i64(0, 6, 3), dynamic="x:0=n i:0=m j:0=m"),
    case("aten::index.Tensor", lambda x, i, j: x[i, :, j], TABLE, ROWS, i64(-6, 6, 2, 1, seed=3)),
    case("aten::index.Tensor", lambda x, i, j: x[:, i, j], TABLE, i64(0, 5, 2, 1), i64(0, 6, 3)),
    case("aten::index.Tensor", lambda x, i, j, k: x[i, j, k], TABLE, ROWS, COLUMNS, i64(0, 6, 3)),
    case("aten::index.Tensor", lambda x, i: x[torch.arange(x.size(0)), i], f32(4, 5), i64(0, 5, 4),
         dynamic="x:0=n i:0=n"),
    case("aten::index.Tensor", lambda x: x[:, [0, 2]], f32(4, 5), dynamic="x:0=n"),
    case("aten::index.Tensor", lambda x, m: x[m], f32(4), boolean(4)),
    case("aten::index.Tensor", lambda x, m: x[m], f32(4, 5), boolean(4, 5), dynamic="x:0=n m:0=n"),
    case("aten::index.Tensor", lambda x, m: x[m], TABLE, boolean(4, 5)),
    case("aten::index.Tensor", lambda x, m: x[m], TABLE, boolean(4)),
    case("aten::index.Tensor", lambda x, m: x[:, m], TABLE, boolean(5, 6)),
    case("aten::index.Tensor", lambda x, m, i: x[m, i], TABLE, torch.tensor([True, False, True, True]), COLUMNS),
    case("aten::index.Tensor", lambda x, m, i: x[m, i], TABLE, boolean(4), torch.tensor([1])),
    case("aten::index.Tensor_hacked_twin", "def forward(self, x, i):\n  return torch.ops.aten.index(x, [i])", TABLE, ROWS),
    case("aten::index_select", lambda x, i: x.index_select(1, i), TABLE, i64(0, 5, 3)),
    case("aten::index_select", lambda x, i: x.index_select(-1, i), TABLE, i64(0, 6, 3), dynamic="x:0=n i:0=m"),
    case("aten::index_select", lambda x, i: x.index_select(0, i), f32(3), torch.tensor(1)),
    case("aten::masked_fill.Scalar", lambda x, m: x.masked_fill(m, -1e9), f32(2, 3), boolean(3), dynamic="x:0=n"),
    case("aten::masked_fill.Scalar", lambda x, m: x.masked_fill(m, 0), i64(1, 9, 3), boolean(2, 3)),
    case("aten::masked_fill.Scalar", lambda x, m: x.masked_fill(m, float("-inf")), f32(2, 3), boolean(2, 3)),
    case("aten::masked_fill.Tensor", lambda x, m, v: x.masked_fill(m, v), f32(2, 3), boolean(2, 1), f32()),
    case("aten::masked_select", lambda x, m: x.masked_select(m), f32(2, 3), boolean(2, 3)),
    case("aten::masked_select", lambda x, m: x.masked_select(m), f32(4, 3), boolean(3), dynamic="x:0=n"),
    case("aten::nonzero", lambda x: x.nonzero(), i64(0, 2, 3, 4)),
    case("aten::nonzero", lambda x: x.nonzero(), f32(3), dynamic="x:0=n"),
    case("aten::nonzero_numpy", lambda x: torch.ops.aten.nonzero_numpy(x), i64(0, 2, 3, 4)),
    case("aten::take", lambda x, i: torch.take(x, i), f32(3, 4), i64(-12, 12, 2, 2)),
    case("aten::take_along_dim", lambda x, i: torch.ops.aten.take_along_dim(x, i, 1), f32(3, 4), i64(0, 4, 1, 2)),
    case("aten::take_along_dim", lambda x, i: torch.ops.aten.take_along_dim(x, i), f32(3, 4), i64(0, 12, 5)),
    case("aten::where", lambda x: torch.ops.aten.where(x), boolean(3, 4)),
    case("aten::where.Scalar", lambda m: torch.where(m, 1.5, 2), boolean(4)),
    case("aten::where.ScalarOther", lambda m, x: torch.where(m, x, 0.5), boolean(4), f32(4)),
    case("aten::where.ScalarOther", lambda m, x: torch.where(m, x, 0.5), boolean(4), i64(0, 9, 4)),
    case("aten::where.ScalarSelf", lambda m, x: torch.where(m, -1, x), boolean(4), f32(4)),
    case("aten::where.self", lambda m, x, y: torch.where(m, x, y), boolean(4, 1), f32(3), f32(2, 4, 3),
         dynamic="y:0=n"),
    case("aten::where.self", lambda m, x, y: torch.where(m, x, y), boolean(4), f32(4), i64(0, 9, 4)),
]
