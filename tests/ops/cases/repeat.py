"""repeat_interleave by a number, by constant counts and by computed counts."""

import torch

from ops.case import case, f32, i64

COUNTS = torch.tensor([2, 0, 3])

CASES = [
    case("aten::repeat_interleave.self_int", lambda x: torch.repeat_interleave(x, 2, 1), f32(2, 3), dynamic="x:0=n"),
    case("aten::repeat_interleave.self_int", lambda x: torch.repeat_interleave(x, 3), f32(2, 3)),
    case("aten::repeat_interleave.self_int", lambda x: torch.repeat_interleave(x, 2, 1), f32(2, 3, 4),
         dynamic="x:0=n,1=t"),
    case("aten::repeat_interleave.self_int", lambda x: torch.repeat_interleave(x, 2), f32(4), dynamic="x:0=n"),
    case("aten::repeat_interleave.self_Tensor", lambda x: torch.repeat_interleave(x, COUNTS, 0), f32(3, 2)),
    case("aten::repeat_interleave.self_Tensor", lambda x, n: torch.repeat_interleave(x, n, 1), f32(2, 3), COUNTS),
    case("aten::repeat_interleave.self_Tensor", lambda x, n: torch.repeat_interleave(x, n), f32(4), i64(0, 4, 4),
         dynamic="x:0=n n:0=n"),
    case("aten::repeat_interleave.self_Tensor", lambda x, n: torch.repeat_interleave(x, n, 0, output_size=5),
         f32(3, 2), COUNTS),
    case("aten::repeat_interleave.self_Tensor", lambda x: torch.repeat_interleave(x, torch.tensor([2]), 0), f32(3, 2)),
    case("aten::repeat_interleave.self_Tensor", lambda x, n: torch.repeat_interleave(x, n, 1), f32(2, 3), i64(2, 5, 1),
         dynamic="x:0=b,1=t"),
    case("aten::repeat_interleave.self_Tensor", lambda x, n: torch.repeat_interleave(x, n), f32(2, 3), i64(2, 5, 1)),
    case("aten::repeat_interleave.self_Tensor", lambda x, n: torch.repeat_interleave(x, n, 0), f32(3, 2), i64(2, 5)),
    case("aten::repeat_interleave.self_Tensor", lambda x: torch.repeat_interleave(x, COUNTS, 1), f32(2, 3, 4),
         dynamic="x:0=n"),
    case("aten::repeat_interleave.self_Tensor", lambda x: torch.repeat_interleave(x, COUNTS, 1), f32(2, 3, 4),
         dynamic="x:0=n,2=t"),
    case("aten::repeat_interleave.self_Tensor", lambda x, n: torch.repeat_interleave(x, n, 1), f32(2, 3, 4), COUNTS,
         dynamic="x:0=b"),
    case("aten::repeat_interleave.self_Tensor", lambda x: torch.repeat_interleave(x, x.shape[0], 1), f32(2, 3),
         dynamic="x:0=n"),
    case("aten::repeat_interleave.Tensor", lambda n: torch.repeat_interleave(n), COUNTS),
]
