"""Padding in every mode, by negative sizes, by sizes computed from a shape, and unbatched."""

import torch
import torch.nn.functional as F

from ops.case import boolean, case, f32, i64

aten = torch.ops.aten

CASES = [
    case("aten::pad", lambda x: F.pad(x, (1, 2)), f32(2, 3, 4), dynamic="x:0=n,2=t", opsets=(13, 20)),
    case("aten::pad", lambda x: F.pad(x, (1, -1, 0, 2), value=-3.5), f32(2, 3, 4)),
    case("aten::pad", lambda x: F.pad(x, (0, 1), value=7), i64(0, 9, 2, 3)),
    case("aten::pad", lambda x: F.pad(x, (0, 1), value=True), boolean(2, 3)),
    case("aten::pad", lambda x: F.pad(x, (0, 0)) + 1, f32(2, 3)),
    case("aten::pad", lambda x: F.pad(x, (0, 8 - x.shape[1])), f32(2, 3), dynamic="x:1=t"),
    case("aten::pad", lambda x: F.pad(x, (1, 2, 2, 1), mode="reflect"), f32(2, 3, 4, 5), dynamic="x:0=n,3=w"),
    case("aten::pad", lambda x: F.pad(x, (1, 2), mode="replicate"), f32(2, 3, 4)),
    *(case("aten::pad", lambda x, pads=pads, mode=mode: F.pad(x, pads, mode=mode), f32(2, 3, 4, 5), opsets=(13, 20))
      for mode in ("reflect", "replicate") for pads in ((-3, 4, 3, -2), (-2, 1, -1, -1), (4, -1, 1, 0))),
    case("aten::pad", lambda x: F.pad(x, (-5, 4), mode="replicate"), f32(2, 3, 5)),
    case("aten::pad", lambda x: F.pad(x, (1, 2, 0, 1), mode="circular"), f32(2, 3, 4, 5), opsets=(13, 19, 20)),
    case("aten::_pad_enum", lambda x: aten._pad_enum(x, [1, 2], 0), f32(2, 3, 4)),
    case("aten::_pad_enum", lambda x: aten._pad_enum(x, [1, 2], 1), f32(2, 3, 4)),
    case("aten::_pad_enum", lambda x: aten._pad_enum(x, [1, 2], 2), f32(2, 3, 4)),
    case("aten::_pad_enum", lambda x: aten._pad_enum(x, [1, 2], 3, 1.5), f32(2, 3, 4)),
    case("aten::constant_pad_nd", lambda x: torch.constant_pad_nd(x, [1, 1, 0, 2], 2), f32(2, 3, 4)),
    case("aten::pad", lambda x: F.pad(x, (-1, 2, 1, -2), mode="circular"), f32(2, 3, 4, 5), opsets=(13, 19, 20)),
    case("aten::_pad_circular", lambda x: aten._pad_circular(x, [2, 1]), f32(2, 3, 4)),
    case("aten::reflection_pad1d", lambda x: aten.reflection_pad1d(x, [1, 2]), f32(3, 4)),
    case("aten::reflection_pad2d", lambda x: aten.reflection_pad2d(x, [1, 2, 0, 1]), f32(2, 3, 4, 5)),
    case("aten::reflection_pad3d", lambda x: aten.reflection_pad3d(x, [1, 2, 0, 1, 2, 1]), f32(1, 2, 4, 5, 6)),
    case("aten::replication_pad1d", lambda x: aten.replication_pad1d(x, [1, 2]), f32(2, 3, 4)),
    case("aten::replication_pad2d", lambda x: aten.replication_pad2d(x, [1, 2, 0, 1]), f32(3, 4, 5)),
    case("aten::replication_pad3d", lambda x: aten.replication_pad3d(x, [1, 2, 0, 1, 2, 1]), f32(1, 2, 4, 5, 6)),
]
