"""Reads values of QLinear operators as the numbers that they represent. The operators state the scale and zero point of each
input in the next two inputs, and those of their result in two more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from ..base.optional_packages import import_optional
from .annotated_file import File

_DTYPES = (torch.int8, torch.uint8)
_RESULT = {"QLinearConcat": 0, "QLinearConv": 6}  # the input with the scale of the result; of other operators, the last but one


def steps_of(file: File, name: str) -> tuple[str, str] | None:
    """Returns the names of the scale and zero point of a quantised value; None if they are unknown, or if the file also has
    the value as floating-point numbers."""
    if any(each.op_type == "DequantizeLinear" for each in file.readers.get(name, ())):
        return None
    return next((steps for steps in _stated_steps(file, name) if all(each in file.scalars for each in steps)), None)


def _stated_steps(file: File, name: str) -> Iterator[tuple[str, str]]:
    for reader in file.readers.get(name, ()):
        if is_qlinear(reader.op_type):
            yield from ((reader.inputs[at + 1], reader.inputs[at + 2]) for at in range(len(reader.inputs) - 2)
                        if reader.inputs[at] == name)
    node = file.producer.get(name)
    if node is not None and is_qlinear(node.op_type):
        at = _RESULT.get(node.op_type, len(node.inputs) - 2)
        if 0 <= at < len(node.inputs) - 1:
            yield node.inputs[at], node.inputs[at + 1]


def is_qlinear(op_type: str) -> bool:
    """Returns true if the operator reads and returns quantised values."""
    return op_type.startswith("QLinear") or op_type == "QGemm"


def dequantised(file: File, name: str, tensor: torch.Tensor) -> torch.Tensor:
    """Returns the numbers that the file's value represents; the tensor itself if it is not quantised."""
    numbers = _numbers(file, name, tensor)
    if numbers is None:
        return tensor
    scale, zero = numbers
    return ((tensor.double() - zero) * scale).float()


def quantised(file: File, name: str, tensor: torch.Tensor, actual: torch.Tensor) -> torch.Tensor:
    """Returns floating-point numbers in the form of ``actual``, the file's value."""
    numbers = _numbers(file, name, actual)
    if numbers is None or not tensor.is_floating_point():
        return tensor.to(actual.dtype)
    scale, zero = numbers
    limits = torch.iinfo(actual.dtype)
    return (torch.round(tensor.double() / scale) + zero).clamp(limits.min, limits.max).to(actual.dtype)


def _numbers(file: File, name: str, tensor: torch.Tensor) -> tuple[float, float] | None:
    steps = steps_of(file, name) if tensor.dtype in _DTYPES else None
    if steps is None:
        return None
    to_array = import_optional("onnx", "reading a model").numpy_helper.to_array
    scale, zero = (float(to_array(file.scalars[each]).reshape(())) for each in steps)
    return scale, zero


def add_dequantised(file: File, model: Any, name: str) -> None:
    """Replaces the quantised output ``name`` of a piece of the file with the numbers that it represents."""
    steps = steps_of(file, name)
    if steps is None:
        return
    onnx = import_optional("onnx", "reading a model")
    present = {each.name for each in model.graph.initializer}
    model.graph.initializer.extend(file.scalars[each] for each in dict.fromkeys(steps) if each not in present)
    model.graph.node.append(onnx.helper.make_node("DequantizeLinear", [name, *steps], [f"{name}.dequantised"]))
    kept = [each for each in model.graph.output if each.name != name]
    del model.graph.output[:]
    model.graph.output.extend([*kept, onnx.ValueInfoProto(name=f"{name}.dequantised")])
