"""Table look-ups, and bags that reduce several look-ups."""

import torch
import torch.nn.functional as F
from torch import nn

from ops.case import case, f32, i32, i64, per_run

OFFSETS = torch.tensor([0, 2, 2, 5])
STARTS = per_run(OFFSETS, torch.tensor([0, 1, 4, 5]))
bag = torch.embedding_bag

CASES = [
    case("aten::embedding_renorm", nn.Embedding(7, 4, max_norm=0.5), i64(0, 7, 2, 3), dynamic="input:0=n",
         recorded_as="aten::embedding_renorm_"),
    case("aten::embedding_renorm", nn.Embedding(7, 4, max_norm=0.7, norm_type=1.0), torch.tensor([4, 3, 4, 2]),
         recorded_as="aten::embedding_renorm_"),
    case("aten::embedding", nn.Embedding(7, 4, padding_idx=0), i64(0, 7, 2, 3), dynamic="input:0=n,1=t"),
    case("aten::embedding", lambda w, i: F.embedding(i, w), f32(7, 4), i32(0, 7, 5)),
    case("aten::embedding_bag", lambda w, i, o: bag(w, i, o)[0], f32(7, 4), i64(0, 7, 8), STARTS),
    case("aten::embedding_bag", lambda w, i, o: bag(w, i, o, False, 1)[0], f32(7, 4), i64(0, 7, 8), STARTS),
    case("aten::embedding_bag", lambda w, i, o: bag(w, i, o, False, 0, False, None, True)[0], f32(7, 4), i64(0, 7, 5),
         STARTS),
    case("aten::embedding_bag", lambda w, i, p: bag(w, i, OFFSETS, False, 0, False, p)[0], f32(7, 4), i64(0, 7, 8),
         f32(8)),
    case("aten::embedding_bag.padding_idx", lambda w, i: F.embedding_bag(i, w, mode="max"), f32(7, 4), i64(0, 7, 2, 3)),
    case("aten::embedding_bag.padding_idx", lambda w, i: F.embedding_bag(i, w, mode="mean"), f32(7, 4), i64(0, 7, 2, 3),
         opsets=(13, 20)),
    case("aten::embedding_bag.padding_idx", lambda w, i: F.embedding_bag(i, w, mode="sum"), f32(7, 4), i64(0, 7, 2, 3),
         dynamic="i:0=n"),
    case("aten::embedding_bag", lambda w, i, o: bag(w, i, o, False, 2)[0], f32(7, 4), i64(0, 7, 8), STARTS),
    case("aten::embedding_bag.padding_idx",
         lambda w, i, o: bag(w, i, o, False, 0, False, None, False, None)[0], f32(7, 4), i64(0, 7, 8), STARTS),
    case("aten::embedding_bag.padding_idx", lambda w, i, o: F.embedding_bag(i, w, o, padding_idx=1), f32(7, 4),
         i64(0, 3, 8), STARTS),
    case("aten::embedding_bag.padding_idx", lambda w, i, o: F.embedding_bag(i, w, o, padding_idx=-6, mode="sum"),
         f32(7, 4), i64(0, 3, 8), STARTS, dynamic="i:0=n"),
    case("aten::embedding_bag.padding_idx", lambda w, i, o: F.embedding_bag(i, w, o, padding_idx=1, mode="max"),
         f32(7, 4), i64(0, 3, 8), STARTS),
    case("aten::_embedding_bag_forward_only", lambda w, i, o: torch.ops.aten._embedding_bag_forward_only(w, i, o)[0],
         f32(7, 4), i64(0, 7, 8), STARTS),
    case("aten::_embedding_bag_forward_only",
         lambda w, i, o: torch.ops.aten._embedding_bag_forward_only(w, i, o, False, 1, padding_idx=2)[0], f32(7, 4),
         i64(0, 4, 8), STARTS),
    case("aten::_embedding_bag", lambda w, i, o: torch._embedding_bag(w, i, o)[0], f32(7, 4), i64(0, 7, 8), STARTS),
]
