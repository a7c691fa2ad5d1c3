"""Cumulative products, extremes and log-sums: signs, ties, NaN, values at which exp overflows."""

import torch

from ops.case import between, boolean, case, f32, i32, i64

nan, infinity = float("nan"), float("inf")
TIES = torch.tensor([[1.0, 3.0, 3.0, 2.0, 3.0, -1.0], [0.0, 0.0, -0.0, nan, 5.0, nan]])
FAR_APART = torch.tensor([[-300.0, -200.0, 0.0, 400.0, -infinity], [-infinity, -infinity, 1.0, infinity, 2.0]])

CASES = [
    *(case(key, function, f32(2, 6), dynamic=dynamic, other_inputs=[(TIES,), (TIES.flip(1),)])
      for dynamic in ("", "x:1=t")
      for key, function in {"aten::cummax": lambda x: x.cummax(1), "aten::cummin": lambda x: x.cummin(1)}.items()),
    case("aten::cumprod", lambda x: x.cumprod(1), between(-2, 2, 2, 7), opsets=(13, 20, 26)),
    case("aten::cumprod", lambda x: x.cumprod(0), i64(-3, 4, 5, 2)),
    case("aten::cumprod", lambda x: x.cumprod(0, dtype=torch.float32), i32(1, 4, 8), dynamic="x:0=n"),
    case("aten::cumprod", lambda x: x.cumprod(1), between(-2, 2, 3, 4, 2), dynamic="x:0=n,1=t", opsets=(13, 20, 26)),
    case("aten::cumprod", lambda x: x.cumprod(-1), between(-2, 2, 3, 4), dynamic="x:0=n"),
    case("aten::cumprod", lambda x: x.cumprod(0), f32()),
    case("aten::cumprod", lambda x: x.cumprod(0), boolean(5)),
    case("aten::cummax", lambda x: x.cummax(1), TIES, opsets=(13, 20)),
    case("aten::cummax", lambda x: x.cummax(0), i64(-9, 9, 6, 3)),
    case("aten::cummax", lambda x: x.cummax(0), f32()),
    case("aten::cummax", lambda x: x.cummax(1), i64(-4, 4, 3, 6), dynamic="x:1=t"),
    case("aten::cummin", lambda x: x.cummin(0), f32(5, 2, 3), dynamic="x:0=t", opsets=(13, 20)),
    case("aten::cummin", lambda x: x.cummin(1), TIES),
    case("aten::cummin", lambda x: x.cummin(-1), i32(-9, 9, 2, 6)),
    case("aten::cummin", lambda x: x.cummin(0), f32(5, 2), dynamic="x:1=n"),
    case("aten::logcumsumexp", lambda x: x.logcumsumexp(1), f32(2, 5), opsets=(13, 20)),
    case("aten::logcumsumexp", lambda x: x.logcumsumexp(1), FAR_APART),
    case("aten::logcumsumexp", lambda x: (300 * x).logcumsumexp(1), f32(2, 5, 3), dynamic="x:0=n,1=t", opsets=(13, 20)),
    case("aten::logcumsumexp", lambda x: torch.cat([x, -x, x]).log().logcumsumexp(0), between(0, 1, 5),
         dynamic="x:0=n"),
    case("aten::logcumsumexp", lambda x: x.logcumsumexp(0), f32()),
]
