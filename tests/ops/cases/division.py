"""Division, remainders and shifts: signs, rounding, promotion of integers."""

import torch

from ops.case import case, f32, i32, i64, u8

DIVIDENDS = torch.tensor([-7, -6, -1, 0, 1, 6, 7, 100])
DIVISORS = torch.tensor([3, -3, 2, -2, 5, -5, 7, -7])
FRACTIONS = torch.tensor([-7.5, -6.0, -0.3, 0.0, 0.3, 6.0, 7.5, 1e6 + 0.3])
FRACTION_DIVISORS = torch.tensor([2.0, -3.0, 0.1, -2.0, -0.1, 3.0, -2.5, 0.7])
SHIFTS = torch.tensor([0, 1, 2, 3, 0, 1, 2, 3])
NAN, INF = float("nan"), float("inf")
NUMBERS = torch.tensor([INF, -INF, NAN, 0.0, 1.0, -1.0, 5.0, -5.0, 0.1, -0.3, 7.5, 1e30])
PAIRS = torch.cartesian_prod(NUMBERS, NUMBERS)


# PyTorch divides halves in float32 and rounds later; ONNX's operands and result have one dtype.
ROUNDED_LATE = {"half": "a quotient rounded to half may become the next integer"}


def of_pairs(key: str, function):
    """Tests all pairs of numbers: infinities, NaN, 0, and numbers that float32 rounds."""
    return case(key, function, f32(144), f32(144, seed=1), other_inputs=[(PAIRS[:, 0], PAIRS[:, 1])],
                not_as=ROUNDED_LATE)


CASES = [
    of_pairs("aten::floor_divide", lambda x, y: x // y),
    of_pairs("aten::div.Tensor_mode", lambda x, y: torch.div(x, y, rounding_mode="floor")),
    of_pairs("aten::div.Tensor_mode", lambda x, y: torch.div(x, y, rounding_mode="trunc")),
    of_pairs("aten::remainder.Tensor", lambda x, y: x % y),
    of_pairs("aten::fmod.Tensor", lambda x, y: torch.fmod(x, y)),
    case("aten::floor_divide", lambda x: x // 0.1, f32(12), other_inputs=[(NUMBERS,), (torch.arange(12.0),)],
         not_as={**ROUNDED_LATE, "int": "the archive has 0.1 as a float64 tensor, so the result is float64"}),
    case("aten::floor_divide", lambda x: x // 2, f32(12), other_inputs=[(NUMBERS,)]),
    case("aten::remainder.Scalar", lambda x: x % -2.5, f32(12), other_inputs=[(NUMBERS,)]),
    case("aten::gcd", lambda x, y: torch.gcd(x, y), DIVIDENDS * 6, DIVISORS * 4, dynamic="x:0=n y:0=n"),
    case("aten::gcd", lambda x, y: torch.gcd(x, y), i64(-99, 99, 4, 1), i64(-99, 99, 1, 5)),
    case("aten::gcd", lambda x, y: torch.gcd(x, y), torch.tensor([0, 6, 832040, 2**31 - 1]).int(),
         torch.tensor([0, 0, 514229, 46368]).int(), other_inputs=[(torch.tensor([5, -1, 0, 9]).int(), torch.tensor([-5, 7, -3, 0]).int())]),
    case("aten::lcm", lambda x, y: torch.lcm(x, y), DIVIDENDS, DIVISORS * 4, dynamic="x:0=n y:0=n"),
    case("aten::__lshift__.Scalar", lambda x: x << 3, DIVIDENDS),
    case("aten::__lshift__.Tensor", lambda x, n: torch.ops.aten.__lshift__.Tensor(x, n), DIVIDENDS, SHIFTS),
    case("aten::__rshift__.Scalar", lambda x: x >> 1, DIVIDENDS),
    case("aten::__rshift__.Tensor", lambda x, n: torch.ops.aten.__rshift__.Tensor(x, n), DIVIDENDS, SHIFTS),
    case("aten::bitwise_left_shift.Scalar_Tensor", lambda n: torch.bitwise_left_shift(3, n), SHIFTS),
    case("aten::bitwise_left_shift.Tensor", lambda x, n: torch.bitwise_left_shift(x, n), DIVIDENDS.int(), SHIFTS.int()),
    case("aten::bitwise_left_shift.Tensor_Scalar", lambda x: torch.bitwise_left_shift(x, 2), DIVIDENDS),
    case("aten::bitwise_right_shift.Scalar_Tensor", lambda n: torch.bitwise_right_shift(-13, n), SHIFTS),
    case("aten::bitwise_right_shift.Tensor", lambda x, n: torch.bitwise_right_shift(x, n), DIVIDENDS, SHIFTS),
    case("aten::bitwise_right_shift.Tensor_Scalar", lambda x: torch.bitwise_right_shift(x, 2), DIVIDENDS),
    case("aten::div.Scalar", lambda x: torch.ops.aten.div.Scalar(x, 3), f32(6)),
    case("aten::div.Scalar_mode", lambda x: torch.ops.aten.div.Scalar_mode(x, 3, rounding_mode="floor"), DIVIDENDS),
    case("aten::div.Scalar_mode", lambda x: torch.ops.aten.div.Scalar_mode(x, 2.5, rounding_mode="trunc"), DIVIDENDS),
    case("aten::div.Tensor", lambda x, y: x / y, f32(6), f32(6, seed=1)),
    case("aten::div.Tensor", lambda x, y: x / y, DIVIDENDS, DIVISORS),
    case("aten::div.Tensor", lambda x: x / 2, i32(-9, 9, 6)),
    case("aten::div.Tensor_mode", lambda x, y: torch.div(x, y, rounding_mode="floor"), DIVIDENDS, DIVISORS),
    case("aten::div.Tensor_mode", lambda x, y: torch.div(x, y, rounding_mode="trunc"), DIVIDENDS, DIVISORS),
    case("aten::div.Tensor_mode", lambda x, y: torch.div(x, y, rounding_mode="floor"), f32(8), f32(8, seed=1)),
    case("aten::div.Tensor_mode", lambda x, y: torch.div(x, y, rounding_mode="trunc"), f32(8), f32(8, seed=1)),
    case("aten::div.Tensor_mode", lambda x, y: torch.div(x, y, rounding_mode=None), DIVIDENDS, DIVISORS),
    case("aten::div.Tensor_mode", lambda x: torch.div(x, 2, rounding_mode="floor"), i64(-9, 9, 6)),
    case("aten::floor_divide", lambda x, y: x // y, DIVIDENDS, DIVISORS),
    case("aten::floor_divide", lambda x, y: x // y, DIVIDENDS.to(torch.int8), DIVISORS.to(torch.int8)),
    case("aten::floor_divide", lambda x: x // 2, f32(6)),
    case("aten::floor_divide", lambda x: torch.zeros(x.shape[0] // 2), f32(6), dynamic="x:0=n"),
    case("aten::floor_divide.Scalar", lambda x: torch.ops.aten.floor_divide.Scalar(x, 4), DIVIDENDS),
    case("aten::fmod.Scalar", lambda x: torch.fmod(x, 3), DIVIDENDS),
    case("aten::fmod.Tensor", lambda x, y: torch.fmod(x, y), FRACTIONS, FRACTION_DIVISORS),
    case("aten::remainder.Scalar", lambda x: x % 3, DIVIDENDS),
    case("aten::remainder.Scalar", lambda x: x % 2.5, FRACTIONS),
    case("aten::remainder.Scalar", lambda x: x % -3, DIVIDENDS),
    case("aten::remainder.Scalar", lambda x: x % -3, u8(0, 255, 2, 3)),
    case("aten::floor_divide", lambda x, y: (x + 0).floor_divide_(y), DIVIDENDS, DIVISORS,
         recorded_as="aten::floor_divide_.Tensor"),
    case("aten::remainder.Scalar_Tensor", lambda x: torch.remainder(7, x), DIVISORS),
    case("aten::remainder.Tensor", lambda x, y: x % y, DIVIDENDS, DIVISORS),
    case("aten::remainder.Tensor", lambda x, y: x % y, FRACTIONS, FRACTION_DIVISORS),
]
