"""Tensors put together and taken apart: promotion, empty parts, uneven pieces, dynamic axes."""

import torch

from ops.case import boolean, case, f32, i64

CASES = [
    case("aten::cat", lambda x, y: torch.cat((x, y), 1), f32(2, 3), f32(2, 4)),
    case("aten::cat", lambda x, y: torch.cat((x, y), -1), f32(2, 3), i64(0, 9, 2, 4)),
    case("aten::cat", lambda x, y: torch.cat((x, y)), boolean(2, 3), boolean(4, 3), dynamic="x:0=n y:0=m"),
    case("aten::cat", lambda x: torch.cat((torch.zeros(0), x), 1), f32(2, 3)),
    case("aten::cat", lambda x: torch.cat((x,)), f32(2, 3)),
    case("aten::chunk", lambda x: x.chunk(2, -1), f32(2, 6), opsets=(13, 18)),
    case("aten::chunk", lambda x: x.chunk(3, 0), f32(7, 2)),
    case("aten::chunk", lambda x: x.chunk(4, 0), f32(5, 2)),
    case("aten::chunk", lambda x: x.chunk(2, 1), f32(2, 6), dynamic="x:0=n"),
    case("aten::chunk", lambda x: x.chunk(2, 0), f32(6, 2), dynamic="x:0=n", opsets=(13, 18)),
    case("aten::hstack", lambda x, y: torch.ops.aten.hstack([x, y]), f32(2, 3), f32(2, 4)),
    case("aten::hstack", lambda x, y: torch.ops.aten.hstack([x, y]), f32(3), f32(4)),
    case("aten::hstack", lambda x, y: torch.ops.aten.hstack([x, y]), f32(), f32()),
    case("aten::split.Tensor", lambda x: x.split(2), f32(6, 2), opsets=(13, 18)),
    case("aten::split.Tensor", lambda x: x.split(4, 1), f32(2, 10), dynamic="x:0=n"),
    case("aten::split.Tensor", lambda x: x.split(5), f32(5, 2)),
    case("aten::split.Tensor", lambda x: x.split(4, 1), f32(2, 10), dynamic="x:1=n", refused="number of results"),
    case("aten::split.Tensor", "def forward(self, x):\n  return x.split(x.size(1) - 1, 1)", f32(2, 5), dynamic="x:1=n"),
    case("aten::split.sizes", lambda x: torch.ops.aten.split.sizes(x, [1, 2, 3], 1), f32(2, 6)),
    case("aten::split_with_sizes", lambda x: x.split([1, 2, 3], -1), f32(2, 6)),
    case("aten::split_with_sizes", lambda x: x.split([3, 3], -1), f32(2, 6), dynamic="x:0=n"),
    case("aten::stack", lambda x, y: torch.stack((x, y), 1), f32(2, 3), f32(2, 3, seed=1), dynamic="x:0=n y:0=n"),
    case("aten::stack", lambda x, y: torch.stack((x, y), -1), f32(2), i64(0, 9, 2)),
    case("aten::stack", lambda x, y: torch.stack((x, y)), f32(), f32(seed=1)),
    case("aten::tensor_split.indices", lambda x: x.tensor_split((1, -2), 1), f32(2, 6)),
    case("aten::tensor_split.sections", lambda x: x.tensor_split(3), f32(8, 2)),
    case("aten::unbind.int", lambda x: x.unbind(1), f32(2, 3, 2), dynamic="x:0=n"),
    case("aten::unsafe_chunk", lambda x: torch.ops.aten.unsafe_chunk(x, 2, 1), f32(2, 6)),
    case("aten::unsafe_split.Tensor", lambda x: torch.ops.aten.unsafe_split(x, 4, 1), f32(2, 6)),
    case("aten::unsafe_split_with_sizes", lambda x: torch.ops.aten.unsafe_split_with_sizes(x, [2, 4], 1), f32(2, 6)),
    case("aten::vstack", lambda x, y: torch.ops.aten.vstack([x, y]), f32(3), f32(2, 3)),
    case("aten::vstack", lambda x, y: torch.ops.aten.vstack([x, y]), f32(), f32()),
    case("aten::stack", "def forward(self, x):\n  parts = [x]\n  for i in range(2):\n    parts += [x * i]\n"
                        "  return torch.stack(parts)\n", f32(2, 3)),
]
