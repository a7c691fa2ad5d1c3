"""Conversions between dtypes and between tensors and Python numbers, sizes, and identity operators."""

import torch

from ops.case import boolean, case, f16, f32, f64, i32, i64

HALVES = torch.tensor([-2.7, -0.5, 0.0, 0.5, 2.7])


def number(expression: str) -> str:
    return f"def forward(self, x):\n  return {expression}\n"


BITS = ("double", "half", "int")  # the bits of x are int32
TRACES = "its trace does not load"

CASES = [
    case("aten::to.device", lambda x: torch.ops.aten.to.device(x, torch.device("cpu"), torch.float32), f64(3)),
    case("aten::to.dtype", lambda x: x.to(torch.int64), HALVES),
    case("aten::to.dtype", lambda x: x.bool(), HALVES),
    case("aten::to.dtype", lambda x: x.to(torch.float16), f32(3)),
    case("aten::to.dtype", lambda x: x.to(torch.uint8), i64(0, 600, 5)),
    case("aten::to.dtype", lambda x: x.float(), boolean(5), dynamic="x:0=n"),
    case("aten::to.dtype", lambda x: x.to(torch.float32), f32(3)),
    case("aten::to.dtype_layout", lambda x: torch.ops.aten.to.dtype_layout(x, dtype=torch.int32), HALVES),
    case("aten::to.other", "def forward(self, x, y):\n  return x.to(y)", i32(0, 9, 3), f16(2)),
    case("aten::to.prim_other", number("torch.ops.aten.to(x, False, False)"), f64(3)),
    case("aten::type_as", lambda x, y: x.type_as(y), f32(3), i64(0, 9, 2)),
    case("aten::view.dtype", lambda x: x.view(torch.int32) & 0x7FFFFFFF, f32(2, 3), opsets=(26, 28), dynamic="x:0=n",
         not_as=BITS,
         not_in_traces=TRACES),
    case("aten::view.dtype", lambda x: ((x + 0.5).view(torch.int32) + 1).view(torch.float32), f32(2, 3), opsets=(26,),
         not_as=BITS,
         not_in_traces=TRACES),
    case("aten::view.dtype", lambda x: (x.view(torch.bfloat16).float(), x.view(torch.int16) // 2), f16(2, 3),
         opsets=(26,), not_in_traces=TRACES),
    case("aten::view.dtype", lambda x: x.view(torch.int32), f32(2, 3), refused="--opset 26", not_in_traces=TRACES),
    case("aten::view.dtype", lambda x: x.view(torch.int16), f32(2, 4), opsets=(26,), refused="of another size",
         not_in_traces=TRACES),
    case("aten::view.dtype", lambda x: x + torch.tensor([1, 2, 3]).float().view(torch.int32), i32(0, 9, 3),
         not_in_traces=TRACES),
    case("aten::_to_copy", lambda x: torch.ops.aten._to_copy(x, dtype=torch.float64), f32(3)),
    case("aten::_cast_Float", lambda x: torch.ops.aten._cast_Float(x), i64(0, 9, 3)),
    case("aten::alias", lambda x: torch.ops.aten.alias(x) + 1, f32(3)),
    case("aten::clone", lambda x: x.clone() + 1, f32(3)),
    case("aten::contiguous", lambda x: x.transpose(0, 1).contiguous(), f32(2, 3)),
    case("aten::detach", lambda x: x.detach() + 1, f32(3)),
    case("aten::lift", lambda x: torch.ops.aten.lift(x) + 1, f32(3)),
    case("aten::lift_fresh", lambda x: torch.ops.aten.lift_fresh(x) + 1, f32(3)),
    case("aten::lift_fresh_copy", lambda x: torch.ops.aten.lift_fresh_copy(x) + 1, f32(3)),
    case("aten::resolve_conj", lambda x: torch.ops.aten.resolve_conj(x) + 1, f32(3)),
    case("aten::resolve_neg", lambda x: torch.ops.aten.resolve_neg(x) + 1, f32(3)),
    case("aten::conj", lambda x: torch.ops.aten.conj(x) + 1, f32(3)),
    case("aten::positive", lambda x: torch.ops.aten.positive(x) + 1, f32(3)),
    case("aten::real", lambda x: torch.ops.aten.real(x) + 1, f32(3)),
    case("aten::cpu", number("x.cpu() + 1"), f32(3)),
    case("aten::Int.Tensor", lambda x: torch.zeros(x.shape[0] + 1), f32(3), dynamic="x:0=n"),
    case("aten::Int.Tensor", number("int(x) + 1"), torch.tensor(-2.7)),
    case("aten::Int.Tensor", number("int(x)"), torch.tensor([5])),
    case("aten::Int.Scalar", number("int(x.item())"), torch.tensor(3)),
    case("aten::Int.bool", number("int(bool(x))"), torch.tensor(1)),
    case("aten::Int.float", number("int(float(x))"), torch.tensor(2.5)),
    case("aten::Float.Tensor", number("float(x)"), torch.tensor(2.5)),
    case("aten::Float.Scalar", number("float(x.item())"), torch.tensor(2.5)),
    case("aten::Float.bool", number("float(bool(x))"), torch.tensor(1)),
    case("aten::Bool.Tensor", number("bool(x)"), torch.tensor(1)),
    case("aten::Bool.float", number("bool(float(x))"), torch.tensor(0.5)),
    case("aten::Bool.int", number("bool(int(x))"), torch.tensor(2)),
    case("aten::ScalarImplicit", lambda x, y: torch.full((2,), y.sum()) + x, f32(2), f32(3)),
    case("aten::item", number("x + x.sum().item()"), f32(3)),
    case("aten::_local_scalar_dense", number("torch.ops.aten._local_scalar_dense(x) + 1"), torch.tensor(2)),
    case("aten::is_nonzero", number("torch.is_nonzero(x)"), torch.tensor(2)),
    case("aten::IntImplicit", "def forward(self, x, n):\n  return x.narrow(0, 1, n)\n", f32(5), torch.tensor(3)),
    case("prim::NumToTensor.Scalar", lambda x: x + x.shape[0] * 2, f32(3), dynamic="x:0=n"),
    case("aten::size", number("torch.tensor(x.size())"), f32(3, 4), dynamic="x:0=n"),
    case("aten::size.int", lambda x: x + x.size(1), f32(2, 3), dynamic="x:1=n"),
    case("aten::sym_size.int", number("x + torch.ops.aten.sym_size(x, 1)"), f32(2, 3), dynamic="x:1=n"),
    case("aten::numel", lambda x: x + x.numel(), f32(2, 3), dynamic="x:0=n"),
    case("aten::sym_numel", number("x + torch.ops.aten.sym_numel(x)"), f32(2, 3), dynamic="x:0=n"),
    case("aten::dim", number("x + x.dim()"), f32(2, 3)),
    case("aten::len.Tensor", number("x + len(x)"), f32(2, 3), dynamic="x:0=n"),
    case("aten::_shape_as_tensor", lambda x: torch.ops.aten._shape_as_tensor(x), f32(2, 3), dynamic="x:0=n",
         not_in_archives="it has no kernel for torch.export's tensors"),
    *(case("prims::convert_element_type", lambda x, dtype=dtype: torch.ops.prims.convert_element_type(x, dtype),
           f32(2, 3), not_in_traces="Python registers it") for dtype in (torch.int64, torch.float16, torch.bool)),
]
