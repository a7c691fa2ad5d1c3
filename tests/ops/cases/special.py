"""Special functions: both sides of every boundary between approximations, poles, infinities and NaN."""

import math

import torch

from ops.case import case, f32, f64, i64

ALL = torch.cat([torch.linspace(-30, 30, 241), torch.tensor([math.inf, -math.inf, math.nan])])
POSITIVE = torch.linspace(0.01, 60, 200)
UNIT = torch.linspace(-1, 1, 101)
FINITE = torch.linspace(-40, 40, 161)
EDGES = torch.tensor([math.inf, 0.0, -1.0, math.nan, 2.0])
CLOSE = (2e-5, 2e-5)

CASES = [
    case("aten::digamma", lambda x: torch.digamma(x), POSITIVE, tolerance=CLOSE),
    case("aten::digamma", lambda x: torch.digamma(x), torch.tensor([-0.5, -3.3, -7.9, 0.0, -0.0, -1.0, -4.0]),
         tolerance=CLOSE),
    case("aten::erfinv", lambda x: torch.erfinv(x), UNIT, tolerance=CLOSE),
    case("aten::erfinv", lambda x: torch.erfinv(x), torch.tensor([1.5, math.nan, 0.99999])),
    case("aten::i0", lambda x: torch.i0(x), FINITE, tolerance=CLOSE),
    *[case(f"aten::{key}", lambda x, of=getattr(torch.special, key.removeprefix("special_")): of(x), f64(3),
           refused="digits of float64")
      for key in ("erfinv", "i0", "special_erfcx", "special_i0e", "special_i1", "special_i1e", "special_log_ndtr")],
    case("aten::lgamma", lambda x: torch.lgamma(x), ALL, opsets=(13, 20), tolerance=CLOSE),
    case("aten::lgamma", lambda x: torch.lgamma(x), i64(1, 9, 5)),
    case("aten::lgamma", lambda x: torch.mvlgamma(x, 2), POSITIVE + 1, recorded_as="aten::mvlgamma", tolerance=CLOSE),
    case("aten::special_entr", lambda x: torch.special.entr(x), ALL),
    case("aten::special_erfcx", lambda x: torch.special.erfcx(x), torch.linspace(-5, 60, 131), tolerance=CLOSE),
    case("aten::special_i0e", lambda x: torch.special.i0e(x), FINITE, tolerance=CLOSE),
    case("aten::special_i1", lambda x: torch.special.i1(x), FINITE, tolerance=CLOSE),
    case("aten::special_modified_bessel_i0", lambda x: torch.special.modified_bessel_i0(x), FINITE, tolerance=CLOSE),
    case("aten::special_modified_bessel_i1", lambda x: torch.special.modified_bessel_i1(x), FINITE, tolerance=CLOSE),
    case("aten::special_i1e", lambda x: torch.special.i1e(x), FINITE, tolerance=CLOSE),
    case("aten::special_log_ndtr", lambda x: torch.special.log_ndtr(x), FINITE, tolerance=CLOSE),
    case("aten::special_xlog1py", lambda x, y: torch.special.xlog1py(x, y), EDGES, torch.zeros(5)),
    case("aten::special_xlog1py.other_scalar", lambda x: torch.special.xlog1py(x, 0.5), f32(5)),
    case("aten::special_xlog1py.self_scalar", lambda x: torch.special.xlog1py(0, x), EDGES),
    case("aten::xlogy.Scalar_Other", lambda x: torch.xlogy(x, 3), torch.tensor([0.0, 2.0])),
    case("aten::xlogy.Scalar_Self", lambda x: torch.xlogy(2, x), i64(1, 9, 4)),
    case("aten::xlogy.Tensor", lambda x, y: torch.xlogy(x, y), torch.tensor([0.0, 0.0, 0.0, 2.0]),
         torch.tensor([0.0, math.nan, -1.0, 3.0])),
]
