"""New tensors. Those of constant shape and content are folded before any converter sees them, so sizes, bounds or
values here come from inputs."""

import torch

from ops.case import boolean, case, f16, f32, i32, i64


def scripted(expression: str) -> str:
    return f"def forward(self, x):\n  return {expression}\n"


CASES = [
    case("aten::arange", lambda x: torch.arange(x.size(0)), f32(4), dynamic="x:0=n"),
    case("aten::arange", lambda x: torch.arange(x.size(0), dtype=torch.float32), f32(4), dynamic="x:0=n"),
    case("aten::arange", lambda x: torch.arange(x.size(0) / 2), f32(5), dynamic="x:0=n"),
    case("aten::arange.start", lambda x: torch.arange(1, x.size(0) + 1), f32(4), dynamic="x:0=n"),
    case("aten::arange.start", lambda x: torch.arange(-1, x.size(0), dtype=torch.int32), f32(4), dynamic="x:0=n"),
    case("aten::arange.start_step", lambda x: torch.arange(x.size(0), 8.5, 1.5, dtype=torch.int64), f32(2),
         dynamic="x:0=n"),
    case("aten::arange.start_step", lambda x: torch.arange(x.size(0), 8.5, 1.5, dtype=torch.int32), f32(2),
         dynamic="x:0=n"),
    case("aten::arange.start_step", lambda x: torch.arange(x.size(0) + 0.7, 9.2, 1.5, dtype=torch.int32), f32(2),
         dynamic="x:0=n"),
    case("aten::arange", lambda x: torch.arange(x.size(0) / 2, dtype=torch.int64), f32(5), dynamic="x:0=n"),
    case("aten::arange.start_step", lambda x: torch.arange(0, x.size(0), 0.5, dtype=torch.int32), f32(4),
         dynamic="x:0=n", refused="in steps below 1"),
    case("aten::arange.start_step", lambda x: torch.arange(0, x.size(0), 2), f32(5), dynamic="x:0=n"),
    case("aten::arange.start_step", lambda x: torch.arange(x.size(0), 0, -1), f32(5), dynamic="x:0=n"),
    # ONNX Runtime rewrites what reads a Range by Gather.
    case("aten::arange.start_step", lambda x: x.index_select(1, torch.arange(x.size(1) - 1, -1, -1)), f32(2, 5),
         dynamic="x:1=n"),
    case("aten::arange.start_step", lambda x: x[:, torch.arange(x.size(1) - 1, 0, -2)], f32(2, 6), dynamic="x:1=n"),
    case("aten::arange.start_step", lambda x: torch.arange(0, x.size(0), 0.5), f32(5), dynamic="x:0=n"),
    case("aten::as_tensor.bool", scripted("torch.as_tensor(x.size(0) > 3)"), f32(4), dynamic="x:0=n"),
    case("aten::as_tensor.float", scripted("torch.as_tensor(float(x.size(0)))"), f32(4), dynamic="x:0=n"),
    case("aten::as_tensor.int", scripted("torch.as_tensor(x.size(0))"), f32(4), dynamic="x:0=n"),
    case("aten::empty.memory_format", lambda x: torch.empty(x.size(0), 2), f32(4), dynamic="x:0=n", tolerance=None),
    case("aten::empty_like", lambda x: torch.empty_like(x), f32(4), dynamic="x:0=n", tolerance=None),
    case("aten::empty_strided", lambda x: torch.empty_strided((x.size(0), 2), (2, 1)), f32(4), dynamic="x:0=n",
         tolerance=None),
    case("aten::eye", lambda x: torch.eye(x.size(0)), f32(4), dynamic="x:0=n"),
    case("aten::eye.m", lambda x: torch.eye(x.size(0), 3, dtype=torch.int64), f32(4), dynamic="x:0=n"),
    case("aten::full", lambda x: torch.full((x.size(0), 2), 7), f32(4), dynamic="x:0=n"),
    case("aten::full", lambda x: torch.full((2, 2), x.size(0)), f32(4), dynamic="x:0=n"),
    case("aten::full", lambda x: torch.full((x.size(0),), float("-inf")), f32(4), dynamic="x:0=n"),
    case("aten::full_like", lambda x: torch.full_like(x, 2.5), f32(2, 3)),
    case("aten::full_like", lambda x: torch.full_like(x, 2.5), i64(0, 9, 2, 3), dynamic="x:0=n"),
    case("aten::linspace", scripted("torch.linspace(0, float(x.size(0)), 5)"), f32(4), dynamic="x:0=n"),
    case("aten::linspace.Scalar_Tensor", lambda x: torch.linspace(0, x.size(0), 5), f32(4), dynamic="x:0=n"),
    case("aten::linspace.Tensor_Scalar", lambda x: torch.linspace(x, 2, 5), f32()),
    case("aten::linspace.Tensor_Tensor", lambda x, y: torch.linspace(x, y, 1), f32(), f32(seed=1)),
    case("aten::new_empty", lambda x: x.new_empty(x.size(0), 2), f16(4), dynamic="x:0=n", tolerance=None),
    case("aten::new_empty_strided", lambda x: x.new_empty_strided((x.size(0), 2), (2, 1)), f32(4), dynamic="x:0=n",
         tolerance=None),
    case("aten::new_full", lambda x: x.new_full((x.size(0), 2), 3), i32(0, 9, 4), dynamic="x:0=n"),
    case("aten::new_ones", lambda x: x.new_ones(x.size(0), 2, dtype=torch.bool), f32(4), dynamic="x:0=n"),
    case("aten::new_zeros", lambda x: x.new_zeros(2, x.size(0)), f32(4), dynamic="x:0=n"),
    case("aten::ones", lambda x: torch.ones(x.size(0), 3, dtype=torch.int64), f32(4), dynamic="x:0=n"),
    case("aten::ones_like", lambda x: torch.ones_like(x), f32(2, 3)),
    case("aten::ones_like", lambda x: torch.ones_like(x, dtype=torch.bool), f32(2, 3), dynamic="x:0=n,1=m"),
    case("aten::scalar_tensor", scripted("torch.scalar_tensor(x.size(0))"), f32(4), dynamic="x:0=n"),
    case("aten::tensor", scripted("torch.tensor([x.size(0), 7, x.size(1)])"), f32(4, 2), dynamic="x:0=n"),
    case("aten::tensor.bool", scripted("torch.tensor(x.size(0) > 3)"), f32(4), dynamic="x:0=n"),
    case("aten::tensor.float", scripted("torch.tensor(float(x.size(0)))"), f32(4), dynamic="x:0=n"),
    case("aten::tensor.int", scripted("torch.tensor(x.size(0))"), f32(4), dynamic="x:0=n"),
    case("aten::tril", lambda x: torch.tril(x), f32(4, 5), opsets=(13, 18)),
    case("aten::tril", lambda x: torch.tril(x, -1), boolean(2, 4, 5), dynamic="x:1=n"),
    case("aten::triu", lambda x: torch.triu(x, 1), i64(0, 9, 4, 5), opsets=(13, 18)),
    case("aten::triu", lambda x: torch.triu(x, 1), i32(0, 9, 4, 5), dynamic="x:0=n,1=m"),
    case("aten::zeros", lambda x: torch.zeros(x.size(0), 3), f32(4), dynamic="x:0=n"),
    case("aten::zeros_like", lambda x: torch.zeros_like(x), i64(0, 9, 2, 3)),
    case("aten::zeros_like", lambda x: torch.zeros_like(x), f32(2, 3), dynamic="x:0=n"),
]
