"""Matrix products. The weight is in a module if its storage matters, otherwise an argument."""

import torch
import torch.nn.functional as F
from torch import nn

from ops.case import case, f32, i64, u8


class TiedOutput(nn.Module):
    """An embedding whose table is also the weight of the output layer; the file stores it once."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(11, 8)
        self.output = nn.Linear(8, 11, bias=False)
        self.output.weight = self.table.weight

    def forward(self, ids):
        return self.output(self.table(ids))


class TwoRanks(nn.Module):
    """Calls one layer with a matrix and with a batch of matrices."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 5)

    def forward(self, x):
        return self.layer(x), self.layer(x[0])


class SharedLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(self.layer(x))


CASES = [
    case("aten::linear", nn.Linear(4, 5), f32(3, 4), dynamic="input:0=n"),
    case("aten::linear", nn.Linear(4, 5, bias=False), f32(3, 4)),
    case("aten::linear", nn.Linear(4, 5), f32(2, 3, 4), dynamic="input:0=n,1=t", opsets=(13, 20)),
    case("aten::linear", nn.Linear(4, 5, bias=False), f32(2, 2, 3, 4)),
    case("aten::linear", nn.Linear(4, 5), f32(4)),
    case("aten::linear", SharedLayer(), f32(2, 3, 4)),
    case("aten::linear", TwoRanks(), f32(2, 3, 4)),
    case("aten::linear", TiedOutput(), i64(0, 11, 2, 5)),
    case("aten::linear", TiedOutput(), i64(0, 11, 2, 5), dynamic="ids:0=batch,1=seq"),
    case("aten::linear", lambda x, w: F.linear(x, w), f32(2, 3, 4), f32(5, 4)),
    case("aten::linear", lambda x, w: F.linear(x, w), f32(2, 3, 4), f32(4)),
    case("aten::addmm", lambda a, x, w: torch.addmm(a, x, w), f32(5), f32(3, 4), f32(4, 5), dynamic="x:0=n"),
    case("aten::addmm", lambda a, x, w: torch.addmm(a, x, w, beta=0.5, alpha=2), f32(3, 5), f32(3, 4), f32(4, 5)),
    case("aten::addmm", lambda a, x, w: torch.addmm(a, x, w, beta=0), f32(5), f32(3, 4), f32(4, 5)),
    case("aten::addmm", lambda a, x, w, s: torch.addmm(a, x, w, beta=s, alpha=s + 1), f32(5), f32(3, 4), f32(4, 5),
         torch.tensor(0.5), not_in_archives="torch.export requires numbers as factors"),
    case("aten::baddbmm", lambda a, x, y, s: torch.baddbmm(a, x, y, beta=s, alpha=3), f32(2, 3, 5), f32(2, 3, 4),
         f32(2, 4, 5), torch.tensor(0.5), not_in_archives="torch.export requires numbers as factors"),
    case("aten::addmm", lambda a, x, w: torch.addmm(a, x, w, alpha=3), i64(0, 9, 5), i64(0, 9, 3, 4), i64(0, 9, 4, 5)),
    case("aten::addmv", lambda a, m, v: torch.addmv(a, m, v, beta=0.5, alpha=2), f32(3), f32(3, 4), f32(4)),
    case("aten::baddbmm", lambda a, x, y: torch.baddbmm(a, x, y), f32(2, 3, 5), f32(2, 3, 4), f32(2, 4, 5)),
    case("aten::baddbmm", lambda a, x, y: torch.baddbmm(a, x, y, beta=0, alpha=0.3), f32(1, 1, 5), f32(2, 3, 4),
         f32(2, 4, 5), dynamic="x:0=n y:0=n"),
    case("aten::addbmm", lambda a, x, y: torch.addbmm(a, x, y, beta=2, alpha=0.5), f32(3, 5), f32(2, 3, 4),
         f32(2, 4, 5)),
    case("aten::matmul", lambda x, y: torch.matmul(x, y), f32(2, 1, 3, 4), f32(5, 4, 2)),
    case("aten::matmul", lambda x, y: x @ y, f32(4), f32(4)),
    case("aten::matmul", lambda x, y: x @ y, f32(2, 3, 4), f32(4)),
    case("aten::matmul", lambda x, y: x @ y, f32(4), f32(2, 4, 3), dynamic="y:0=n"),
    case("aten::matmul", lambda x, y: x @ y, i64(-9, 9, 3, 4), i64(-9, 9, 4, 2)),
    case("aten::mm", lambda x, y: torch.mm(x, y), f32(3, 4), f32(4, 2), dynamic="x:0=n"),
    case("aten::bmm", lambda x, y: torch.bmm(x, y), f32(2, 3, 4), f32(2, 4, 2), dynamic="x:0=n,1=t y:0=n"),
    case("aten::mv", lambda x, y: torch.mv(x, y), f32(3, 4), f32(4)),
    case("aten::dot", lambda x, y: torch.dot(x, y), f32(4), f32(4)),
    case("aten::vdot", lambda x, y: torch.vdot(x, y), f32(4), f32(4)),
    case("aten::addr", lambda a, x, y: torch.addr(a, x, y), f32(3, 4), f32(3), f32(4), dynamic="a:0=n x:0=n"),
    case("aten::addr", lambda a, x, y: torch.addr(a, x, y, beta=0.5, alpha=2), f32(4), f32(3), f32(4),
         dynamic="x:0=n"),
    case("aten::outer", lambda x, y: torch.outer(x, y), f32(3), f32(4), dynamic="x:0=n"),
    case("aten::inner", lambda x, y: torch.inner(x, y), f32(3, 4), f32(4)),
    case("aten::inner", lambda x, y: torch.inner(x, y), f32(3, 4), f32(5, 4)),
    case("aten::inner", lambda x, y: torch.inner(x, y), f32(2, 3, 4), f32(5, 2, 4)),
    case("aten::inner", lambda x, y: torch.inner(x, y), f32(2, 3), f32()),
    case("aten::matmul", lambda x: x @ x.T, u8(0, 9, 2, 3)),
    case("aten::bilinear", nn.Bilinear(3, 4, 5), f32(2, 3), f32(2, 4, seed=1), dynamic="input1:0=n input2:0=n"),
    case("aten::bilinear", nn.Bilinear(3, 4, 5, bias=False), f32(2, 6, 3), f32(2, 6, 4, seed=1), opsets=(13, 20)),
    case("aten::addmm", lambda x, y, z: torch.addmm(x, y, z, beta=0.2), f32(5, 4), f32(5, 0), f32(0, 4)),
    case("aten::outer", lambda x, y: torch.outer(x, y), f32(3), i64(-5, 5, 4), dynamic="x:0=n"),
    case("aten::outer", lambda x, y: torch.outer(x, y), i64(-5, 5, 3), f32(4), dynamic="y:0=n"),
    case("aten::outer", lambda x, y: torch.outer(x, y), i64(-5, 5, 3), f32(3), dynamic="x:0=n y:0=n"),
    case("aten::_trilinear", lambda a, w, b: torch.ops.aten._trilinear(a, w, b, [1, 3], [0], [1, 2], [2, 3]), f32(2, 3),
         f32(5, 3, 4, seed=1), f32(2, 4, seed=2), tolerance=(1e-4, 1e-4)),
]
