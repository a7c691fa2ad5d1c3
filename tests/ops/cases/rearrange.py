"""Moving pixels between space and channels."""

import torch
import torch.nn.functional as F

from ops.case import case, f32, i64

UNCHANGED = "PyTorch returns an empty image unchanged"

CASES = [
    case("aten::pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), f32(2, 8, 3, 4), dynamic="x:0=n,2=h"),
    case("aten::pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), f32(8, 3, 4)),
    case("aten::pixel_shuffle", lambda x: F.pixel_shuffle(x, 3), i64(-9, 9, 2, 18, 3, 4), dynamic="x:0=n,2=h"),
    case("aten::pixel_unshuffle", lambda x: F.pixel_unshuffle(x, 2), i64(-9, 9, 3, 2, 4, 6), dynamic="x:0=n,1=c",
         not_at={"n=0": UNCHANGED, "c=0": UNCHANGED}),
    case("aten::pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), f32(2, 2, 8, 3, 4)),
    case("aten::pixel_unshuffle", lambda x: F.pixel_unshuffle(x, 2), f32(2, 3, 4, 6), dynamic="x:0=n",
         not_at={"n=0": UNCHANGED}),
    case("aten::pixel_unshuffle", lambda x: F.pixel_unshuffle(x, 2), f32(1, 4, 6)),
    case("aten::pixel_unshuffle", lambda x: F.pixel_unshuffle(x, 2), f32(2, 3, 4, 6), dynamic="x:1=c",
         not_at={"c=0": UNCHANGED}),
    case("aten::channel_shuffle", lambda x: F.channel_shuffle(x, 2), f32(2, 6, 3, 4), dynamic="x:0=n,2=h"),
    case("aten::native_channel_shuffle", lambda x: torch.native_channel_shuffle(x, 3), f32(2, 6, 3, 4)),
    case("aten::im2col", lambda x: F.unfold(x, (3, 2), (1, 2), (1, 0), (2, 1)), f32(2, 3, 6, 7), dynamic="x:0=n"),
    case("aten::im2col", lambda x: F.unfold(x, 2), f32(3, 4, 5)),
    case("aten::im2col", lambda x: F.unfold(x, (3, 2), (1, 2), (1, 0), (2, 1)), f32(2, 3, 4, 5), dynamic="x:2=h,3=w"),
    case("aten::im2col", lambda x: F.unfold(x, 2, stride=3), f32(3, 8, 5), dynamic="x:1=h"),
    case("aten::im2col", lambda x: F.unfold(x, (300, 1)), f32(1, 1, 600, 1)),  # more positions than a table may have
    case("aten::col2im", lambda x: F.fold(x, (4, 5), (2, 3), padding=(1, 0), stride=(2, 1)), f32(2, 18, 9),
         dynamic="x:0=n"),
    case("aten::col2im", lambda x: F.fold(x, (4, 5), 2), f32(12, 12)),
    case("aten::col2im", lambda x: F.fold(x, (4, 5), 2), f32(12, 12), opsets=(17,), refused="fold"),
]
