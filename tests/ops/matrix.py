"""The forms in which a row of the tables is tried besides its own: other opsets, other dtypes."""

import copy
from dataclasses import dataclass, replace

import torch

from ops.case import Case, Given, Input, Tolerance

OPSETS = (13, 18, 20, 23, 28)  # the oldest, the one before the default, the default, the first with Attention, the newest
DEFAULT_OPSET = 20

# What each dtype of a row becomes, and how close results have to be: double is compared more strictly, half with a
# hundred times the row's tolerance, as its digits are worth a thousand times float32's, integers exactly.
DTYPES = {
    "double": ({torch.float32: torch.float64}, Tolerance(1e-7, 1e-7)),
    "half": ({torch.float32: torch.float16}, Tolerance(4e-3, 4e-3)),
    "int": ({torch.float32: torch.int64}, None),
    "int32": ({torch.int64: torch.int32}, None),
}


# Operators that export refuses before an opset: the first one that ONNX can express them in, whatever the arguments.
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
    dtype: str = ""  # a key of DTYPES; the row's own when empty

    def __str__(self) -> str:
        return f"opset {self.opset}{f' {self.dtype}' if self.dtype else ''}"


def has_form(tensor: torch.Tensor, to: dict[torch.dtype, torch.dtype]) -> bool:
    """NaN and infinities are no integers."""
    return to.get(tensor.dtype, tensor.dtype).is_floating_point or bool(tensor.isfinite().all())


def takes_form(case: Case, dtype: str) -> bool:
    """True if a row has inputs to change, and what they hold can be changed."""
    to, _ = DTYPES[dtype]
    changed = [each for each in case.inputs if each.dtype in to]
    held = [tensor for each in changed if isinstance(each, Given) for tensor in (each.first, each.second)]
    return bool(changed) and dtype not in case.not_as and all(has_form(tensor, to) for tensor in held)


def forms(case: Case) -> list[Form]:
    """Those that differ from what test_ops.py runs."""
    return ([Form(opset) for opset in OPSETS if opset not in case.opsets]
            + [Form(DEFAULT_OPSET, dtype) for dtype in DTYPES if takes_form(case, dtype)])


def changed_input(given: Input | Given, to: dict[torch.dtype, torch.dtype]) -> Input | Given:
    dtype = to.get(given.dtype)
    if dtype is None:
        return given
    if isinstance(given, Given):
        return Given(given.first.to(dtype), given.second.to(dtype))
    if given.dtype.is_floating_point and not dtype.is_floating_point:
        low, high = (-5, 6) if (given.low, given.high) == (0, 1) else (round(given.low), round(given.high) + 1)
        return replace(given, dtype=dtype, low=low, high=high)
    return replace(given, dtype=dtype)


def changed_inputs(case: Case, to: dict[torch.dtype, torch.dtype]) -> tuple[Input | Given, ...]:
    return tuple(changed_input(given, to) for given in case.inputs)


def in_form(case: Case, form: Form) -> Case:
    """The row with the dtype of the form; its modules, too."""
    if not form.dtype:
        return replace(case, opsets=(form.opset,))
    to, closest = DTYPES[form.dtype]
    function, dtype = case.function, to.get(torch.float32)
    if isinstance(function, torch.nn.Module) and dtype is not None and dtype.is_floating_point:
        function = copy.deepcopy(function).to(dtype)
    tolerance = case.tolerance
    if tolerance and closest:
        tolerance = closest if closest.relative < 1e-5 else Tolerance(max(closest.relative, 100 * tolerance.relative),
                                                                      max(closest.absolute, 100 * tolerance.absolute))
    other_inputs = tuple(tuple(tensor.to(to.get(tensor.dtype, tensor.dtype)) for tensor in tensors)
                         for tensors in case.other_inputs if all(has_form(tensor, to) for tensor in tensors))
    return replace(case, function=function, inputs=changed_inputs(case, to), opsets=(form.opset,), tolerance=tolerance,
                   other_inputs=other_inputs)
