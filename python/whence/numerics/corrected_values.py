"""Puts PyTorch's results in the place of wrong values of a file, so that faults after the first one show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from ..base.optional_packages import import_optional
from ..values.value_file import Values
from .annotated_file import File
from .measurements import Measured


def correct_value(values: Values, measured: Measured, actual: torch.Tensor) -> torch.Tensor | None:
    """Returns the recorded tensor with the dtype and, if it has as many elements, the sizes of ``actual``, the file's
    value. Returns None if the tensor was not recorded completely, or has other axes in the file."""
    recorded = measured.point.recorded
    if recorded.form != "whole" or measured.figures.layout or recorded.dtype.startswith(("complex", "q")):
        return None
    tensor = values.whole(recorded).to(actual.dtype)
    return tensor.reshape(actual.shape) if tensor.numel() == actual.numel() else tensor


def with_values(file: File, supplied: Mapping[str, torch.Tensor]) -> File:
    """Returns the file with these values as inputs. The nodes that compute them compute values that nobody reads."""
    onnx = import_optional("onnx", "reading a model")
    model = file.load()
    for node in model.graph.node:
        for at, name in enumerate(node.output):
            if name in supplied:
                node.output[at] = f"{name}.replaced"
    outputs = [each for each in model.graph.output if each.name not in supplied]
    del model.graph.output[:]
    model.graph.output.extend(outputs)
    kept = [each for each in model.graph.value_info if each.name not in supplied]
    del model.graph.value_info[:]
    model.graph.value_info.extend(kept)
    model.graph.input.extend(_value_info(onnx, name, tensor) for name, tensor in supplied.items())
    return replace(file, content=model.SerializeToString(), supplied=dict(supplied))


def _value_info(onnx: Any, name: str, tensor: torch.Tensor) -> Any:
    dtype = 16 if tensor.dtype is torch.bfloat16 else onnx.helper.np_dtype_to_tensor_dtype(tensor.numpy().dtype)
    return onnx.helper.make_tensor_value_info(name, dtype, list(tensor.shape))
