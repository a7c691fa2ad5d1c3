"""Puts PyTorch's results in the place of wrong values of a file, so that faults after the first one show."""

from __future__ import annotations

from dataclasses import replace

import torch

from ..values.value_file import Values
from . import quantised_values
from .annotated_file import File
from .measurements import Measured
from .ort_session import value_info


def correct_value(file: File, values: Values, measured: Measured, actual: torch.Tensor) -> torch.Tensor | None:
    """Returns the recorded tensor with the dtype and, if it has as many elements, the sizes of ``actual``, the file's
    value. Returns None if the tensor was not recorded completely, or has other axes in the file."""
    recorded = measured.point.recorded
    if recorded.form != "whole" or measured.figures.layout or recorded.dtype.startswith(("complex", "q")):
        return None
    tensor = quantised_values.quantised(file, measured.value, values.whole(recorded), actual)
    return tensor.reshape(actual.shape) if tensor.numel() == actual.numel() else tensor


class Corrections:
    """Values that are inputs of a file instead of being computed."""

    def __init__(self, file: File):
        self._file, self._model = file, file.load()
        self.supplied: dict[str, torch.Tensor] = {}

    def supply(self, name: str, tensor: torch.Tensor) -> File:
        """Returns the file with this value, and those supplied before, as inputs. The nodes that compute them compute
        values that nobody reads."""
        self.supplied[name] = tensor
        graph = self._model.graph
        for node in graph.node:
            for at, output in enumerate(node.output):
                if output == name:
                    node.output[at] = f"{name}.replaced"
        for declared in (graph.output, graph.value_info):
            kept = [each for each in declared if each.name != name]
            del declared[:]
            declared.extend(kept)
        graph.input.append(value_info(name, tensor))
        return replace(self._file, content=self._model.SerializeToString(), supplied=dict(self.supplied))
