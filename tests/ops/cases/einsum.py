"""einsum and tensordot."""

import torch

from ops.case import case, f32

CASES = [
    case("aten::einsum", lambda x, y: torch.einsum("bij, bjk -> bik", x, y), f32(2, 3, 4), f32(2, 4, 5),
         dynamic="x:0=n y:0=n"),
    case("aten::einsum", lambda x, y: torch.einsum("bhid,bhjd->bhij", x, y), f32(2, 2, 3, 4), f32(2, 2, 5, 4),
         dynamic="x:0=n,2=t y:0=n"),
    case("aten::einsum", lambda x, y: torch.einsum("i,j->ij", x, y), f32(3), f32(4)),
    case("aten::einsum", lambda x, y: torch.einsum("...i,oi->...o", x, y), f32(2, 3, 4), f32(5, 4)),
    case("aten::einsum", lambda x: torch.einsum("ij->ji", x), f32(3, 4)),
    case("aten::einsum", lambda x, y: torch.einsum("i,j->ij", x.to(torch.int64), y), f32(3), f32(4)),
    case("aten::einsum", lambda x: torch.einsum("...i->i", x), f32(3, 4, 5), dynamic="x:0=n"),
    case("aten::einsum", lambda x, y: torch.einsum("...ij,...jk->ik", x, y), f32(2, 3, 4, 5), f32(3, 5, 2)),
    case("aten::einsum", lambda x, y: torch.einsum("i...,i...->i", x, y), f32(3, 4, 5), f32(3, 4, 5)),
    case("aten::einsum", lambda x: torch.einsum("ii", x), f32(4, 4)),
    case("aten::einsum", lambda x, y: torch.einsum("ij,jk", x, y), f32(3, 4), f32(4, 5)),
    case("aten::einsum", lambda x, y: torch.einsum("bCHW,CHWd->bd", x, y), f32(2, 3, 4, 5), f32(3, 4, 5, 2)),
    case("aten::tensordot", lambda x, y: torch.tensordot(x, y, dims=2), f32(2, 3, 4), f32(3, 4, 5)),
    case("aten::tensordot", lambda x, y: torch.tensordot(x, y, dims=([-1, 0], [0, 2])), f32(2, 3, 4), f32(4, 5, 2),
         dynamic="x:1=n"),
]
