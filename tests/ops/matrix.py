"""Further forms of each table row: other opsets and other dtypes."""

import copy
from dataclasses import dataclass, replace

import torch

from ops.case import Case, FixedInput, Input, Tolerance

OPSETS = (13, 18, 20, 23, 28)  # the oldest, one before the default, the default, the first with Attention, the newest
DEFAULT_OPSET = 20

# The replacement of each dtype of a row, and the tolerance. double is compared more strictly. half has a hundred times
# the row's tolerance, because its unit of rounding is about a thousand times float32's. Integers are compared exactly.
DTYPES = {
    "double": ({torch.float32: torch.float64}, Tolerance(1e-7, 1e-7)),
    "half": ({torch.float32: torch.float16}, Tolerance(4e-3, 4e-3)),
    "int": ({torch.float32: torch.int64}, None),
    "int32": ({torch.int64: torch.int32}, None),
}


# The first opset in which ONNX can express an operator, whatever the arguments; export refuses earlier opsets.
OLDEST = {key: opset for opset, keys in {
    14: "aten::tril aten::triu",
    15: "prim::Optional",
    16: "aten::grid_sampler_2d aten::index_add aten::index_put aten::put aten::scatter.reduce "
        "aten::scatter.value_reduce aten::scatter_add torchvision::ps_roi_align torchvision::roi_align",
    17: "aten::_fft_c2c aten::_fft_c2r aten::_fft_r2c aten::istft aten::native_layer_norm aten::stft",
    18: "aten::__and__.Scalar aten::__and__.Tensor aten::__or__.Scalar aten::__xor__.Scalar "
        "aten::_upsample_bicubic2d_aa aten::_upsample_bicubic2d_aa.vec aten::_upsample_bilinear2d_aa "
        "aten::_upsample_bilinear2d_aa.vec aten::bitwise_and.Scalar aten::bitwise_and.Scalar_Tensor "
        "aten::bitwise_and.Tensor aten::bitwise_not aten::bitwise_or.Scalar aten::bitwise_or.Scalar_Tensor "
        "aten::bitwise_or.Tensor aten::bitwise_xor.Scalar aten::bitwise_xor.Scalar_Tensor "
        "aten::bitwise_xor.Tensor aten::col2im aten::index_reduce aten::scatter_reduce.two "
        "aten::segment_reduce",
    19: "torchvision::deform_conv2d",
    20: "aten::grid_sampler aten::grid_sampler_3d",
    26: "aten::view.dtype",
    23: "onnx::Attention.opset23 onnx::RotaryEmbedding.opset23",
}.items() for key in keys.split()}


@dataclass(frozen=True)
class Form:
    opset: int
    dtype: str = ""  # a key of DTYPES; empty for the row's own dtype

    def __str__(self) -> str:
        return f"opset {self.opset}{f' {self.dtype}' if self.dtype else ''}"


def can_convert(tensor: torch.Tensor, dtypes: dict[torch.dtype, torch.dtype]) -> bool:
    """Returns false if NaN or infinities would become integers."""
    return dtypes.get(tensor.dtype, tensor.dtype).is_floating_point or bool(tensor.isfinite().all())


def has_form(case: Case, dtype: str) -> bool:
    """Returns true if a row has inputs of a dtype to convert, and all their values can be converted."""
    dtypes, _ = DTYPES[dtype]
    convertible = [each for each in case.inputs if each.dtype in dtypes]
    tensors = [tensor for each in convertible if isinstance(each, FixedInput) for tensor in (each.first, each.second)]
    return bool(convertible) and dtype not in case.not_as and all(can_convert(tensor, dtypes) for tensor in tensors)


def forms(case: Case) -> list[Form]:
    """Returns the forms that test_ops.py does not run."""
    return ([Form(opset) for opset in OPSETS if opset not in case.opsets]
            + [Form(DEFAULT_OPSET, dtype) for dtype in DTYPES if has_form(case, dtype)])


def converted_input(input: Input | FixedInput, dtypes: dict[torch.dtype, torch.dtype]) -> Input | FixedInput:
    dtype = dtypes.get(input.dtype)
    if dtype is None:
        return input
    if isinstance(input, FixedInput):
        return FixedInput(input.first.to(dtype), input.second.to(dtype))
    if input.dtype.is_floating_point and not dtype.is_floating_point:
        low, high = (-5, 6) if (input.low, input.high) == (0, 1) else (round(input.low), round(input.high) + 1)
        return replace(input, dtype=dtype, low=low, high=high)
    return replace(input, dtype=dtype)


def converted_inputs(case: Case, dtypes: dict[torch.dtype, torch.dtype]) -> tuple[Input | FixedInput, ...]:
    return tuple(converted_input(each, dtypes) for each in case.inputs)


def in_form(case: Case, form: Form) -> Case:
    """Converts the row, and its modules, to the dtype of the form."""
    if not form.dtype:
        return replace(case, opsets=(form.opset,))
    dtypes, form_tolerance = DTYPES[form.dtype]
    function, dtype = case.function, dtypes.get(torch.float32)
    if isinstance(function, torch.nn.Module) and dtype is not None and dtype.is_floating_point:
        function = copy.deepcopy(function).to(dtype)
    tolerance = case.tolerance
    if tolerance and form_tolerance:
        tolerance = form_tolerance if form_tolerance.relative < 1e-5 else Tolerance(
            max(form_tolerance.relative, 100 * tolerance.relative),
            max(form_tolerance.absolute, 100 * tolerance.absolute))
    other_inputs = tuple(tuple(tensor.to(dtypes.get(tensor.dtype, tensor.dtype)) for tensor in tensors)
                         for tensors in case.other_inputs if all(can_convert(tensor, dtypes) for tensor in tensors))
    return replace(case, function=function, inputs=converted_inputs(case, dtypes), opsets=(form.opset,),
                   tolerance=tolerance, other_inputs=other_inputs)
