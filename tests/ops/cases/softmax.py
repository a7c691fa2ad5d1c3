"""softmax and log_softmax: axes, computation dtypes, rows of -inf."""

import torch
import torch.nn.functional as F

from ops.case import case, f16, f32, i64

HALF = (2e-3, 2e-3)
MASKED = torch.tensor([[0.0, -torch.inf, 1.0], [-torch.inf, -torch.inf, -torch.inf]])

CASES = [
    case("aten::softmax.int", lambda x: F.softmax(x, -1), f32(2, 3, 4), dynamic="x:0=n", opsets=(13, 20)),
    case("aten::softmax.int", lambda x: F.softmax(x, 1), f32(2, 3, 4)),
    case("aten::softmax.int", lambda x: F.softmax(x, 0), f32()),
    case("aten::softmax.int", lambda x: F.softmax(x, -1, dtype=torch.float32), f16(2, 3), tolerance=HALF),
    case("aten::softmax.int", lambda x: F.softmax(x, -1, dtype=torch.float32), i64(-3, 3, 2, 3)),
    case("aten::_softmax", lambda x: torch._softmax(x, 1, False), f32(2, 3)),
    case("aten::_safe_softmax", lambda x: torch._safe_softmax(x, -1), MASKED),
    case("aten::log_softmax.int", lambda x: F.log_softmax(x, 1), f32(2, 3, 4)),
    case("aten::log_softmax.int", lambda x: F.log_softmax(x, -1, dtype=torch.float64), f32(2, 3)),
    case("aten::_log_softmax", lambda x: torch._log_softmax(x, 1, False), f32(2, 3)),
]
