"""Comparisons, logic and bitwise operators: promotion, booleans, narrow integers."""

import torch

from ops.case import boolean, case, f16, f32, i32, i64, u8

SCALAR = {"eq": lambda x: x == 1, "ne": lambda x: x != 1, "lt": lambda x: x < 1, "le": lambda x: x <= 1,
          "gt": lambda x: x > 1, "ge": lambda x: x >= 1}
TENSOR = {"eq": lambda x, y: x == y, "ne": lambda x, y: x != y, "lt": lambda x, y: x < y, "le": lambda x, y: x <= y,
          "gt": lambda x, y: x > y, "ge": lambda x, y: x >= y}

CASES = [
    *[case(f"aten::{name}.Scalar", function, i64(-2, 3, 8)) for name, function in SCALAR.items()],
    *[case(f"aten::{name}.Scalar", function, boolean(8)) for name, function in SCALAR.items()],
    *[case(f"aten::{name}.Tensor", function, i64(-2, 3, 8), i64(-2, 3, 8, seed=1))
      for name, function in TENSOR.items()],
    *[case(f"aten::{name}.Tensor", function, boolean(8), boolean(8, seed=1)) for name, function in TENSOR.items()],
    case("aten::lt.Scalar", lambda x: x < 0.5, i64(-2, 3, 8)),
    case("aten::lt.Scalar", lambda x: x < 0.5, f16(8)),
    case("aten::ge.Scalar", lambda x: x >= 3, u8(0, 6, 8)),
    case("aten::gt.Tensor", lambda x, y: x > y, i64(-2, 3, 2, 3), f32(3)),
    case("aten::eq.Tensor", lambda x, y: x == y, i32(0, 2, 2, 3), i64(0, 2, 3), dynamic="x:0=n"),
    case("aten::__and__.Scalar", lambda x: torch.ops.aten.__and__.Scalar(x, 6), i64(-9, 9, 8)),
    case("aten::__and__.Tensor", lambda x, y: x & y, boolean(8), boolean(8, seed=1), opsets=(13, 20)),
    case("aten::__and__.Tensor", lambda x, y: x & y, boolean(8), i64(0, 2, 8)),
    case("aten::__or__.Scalar", lambda x: torch.ops.aten.__or__.Scalar(x, 6), i64(-9, 9, 8)),
    case("aten::__or__.Tensor", lambda x, y: x | y, boolean(8), boolean(8, seed=1)),
    case("aten::__xor__.Scalar", lambda x: torch.ops.aten.__xor__.Scalar(x, 6), i64(-9, 9, 8)),
    case("aten::__xor__.Tensor", lambda x, y: x ^ y, boolean(8), boolean(8, seed=1)),
    case("aten::bitwise_and.Scalar", lambda x: torch.bitwise_and(x, 6), i64(-9, 9, 8)),
    case("aten::bitwise_and.Scalar_Tensor", lambda x: torch.bitwise_and(6, x), i64(-9, 9, 8)),
    case("aten::bitwise_and.Tensor", lambda x, y: torch.bitwise_and(x, y), u8(0, 99, 8), u8(0, 99, 8, seed=1)),
    case("aten::bitwise_and.Tensor", lambda x, y: torch.bitwise_and(x, y), i64(-9, 9, 8), i64(-9, 9, 8, seed=1),
         opsets=(13,), refused="opset 18"),
    case("aten::bitwise_not", lambda x: ~x, boolean(8)),
    case("aten::bitwise_not", lambda x: ~x, i64(-9, 9, 8), opsets=(13, 20)),
    case("aten::bitwise_not", lambda x: ~x, u8(0, 99, 8)),
    case("aten::bitwise_or.Scalar", lambda x: torch.bitwise_or(x, 6), i64(-9, 9, 8)),
    case("aten::bitwise_or.Scalar_Tensor", lambda x: torch.bitwise_or(6, x), i64(-9, 9, 8)),
    case("aten::bitwise_or.Tensor", lambda x, y: torch.bitwise_or(x, y), i32(-9, 9, 8), i64(-9, 9, 8)),
    case("aten::bitwise_xor.Scalar", lambda x: torch.bitwise_xor(x, 6), i64(-9, 9, 8)),
    case("aten::bitwise_xor.Scalar_Tensor", lambda x: torch.bitwise_xor(6, x), i64(-9, 9, 8)),
    case("aten::bitwise_xor.Tensor", lambda x, y: torch.bitwise_xor(x, y), i64(-9, 9, 8), i64(-9, 9, 8, seed=1)),
    case("aten::logical_and", lambda x, y: torch.logical_and(x, y), i64(0, 2, 8), f32(8)),
    case("aten::logical_and", lambda x, y: torch.logical_and(x, y), torch.tensor([0.0, 0.4, -0.4]), boolean(3)),
    case("aten::logical_not", lambda x: torch.logical_not(x), i64(0, 2, 8)),
    case("aten::logical_not", lambda x: torch.logical_not(x), boolean(8)),
    case("aten::logical_or", lambda x, y: torch.logical_or(x, y), i64(0, 2, 8), i64(0, 2, 8, seed=1)),
    case("aten::logical_xor", lambda x, y: torch.logical_xor(x, y), i64(0, 2, 8), boolean(8, seed=1)),
    case("aten::isin.Tensor_Tensor", lambda x, y: torch.isin(x, y), i64(0, 9, 3, 4), i64(0, 9, 2, 2, seed=1),
         dynamic="x:0=n"),
    case("aten::isin.Tensor_Tensor", lambda x, y: torch.isin(x, y, invert=True), i32(0, 9, 5), f32(3)),
    case("aten::isin.Tensor_Scalar", lambda x: torch.isin(x, 3), i64(0, 5, 9)),
    case("aten::isin.Tensor_Scalar", lambda x: torch.isin(x, 3, invert=True), i64(0, 5, 9)),
]
