"""The options of an export in the words of the command and of torch.onnx.export."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .errors import error


@dataclass(frozen=True)
class Options:
    """What both the command and torch.onnx.export are told, each in its own words."""

    opset: int
    axes: Mapping[str, Mapping[int, str]]
    input_names: Sequence[str]
    output_names: Sequence[str]
    optimize: bool
    export_params: bool
    keep_initializers_as_inputs: bool
    external_data: bool
    report: str | os.PathLike | None

    def for_command(self) -> list:
        words: list = ["--opset", self.opset]
        for name, each in self.axes.items():
            words += ["--dynamic", name + ":" + ",".join(f"{axis}={symbol}" for axis, symbol in each.items())]
        words += ["--input-names", ",".join(self.input_names)] if self.input_names else []
        words += ["--output-names", ",".join(self.output_names)] if self.output_names else []
        words += ["--report", self.report] if self.report else []
        flags = {"--no-optimize": not self.optimize, "--weights-as-inputs": not self.export_params,
                 "--keep-initializers-as-inputs": self.keep_initializers_as_inputs,
                 "--external-data": self.external_data}
        return words + [flag for flag, given in flags.items() if given]

    def for_torch(self, tensors: Mapping, dynamo: bool) -> dict:
        import torch

        names = [*self.input_names, *list(tensors)[len(self.input_names):]]
        options = {"input_names": names, "output_names": list(self.output_names) or None, "opset_version": self.opset,
                   "export_params": self.export_params, "keep_initializers_as_inputs": self.keep_initializers_as_inputs,
                   "dynamo": dynamo}
        if dynamo:
            options |= {"external_data": self.external_data, "optimize": self.optimize, "report": False}
            if self.axes:
                options["dynamic_shapes"] = tuple(
                    {axis: torch.export.Dim.AUTO for axis in self.axes.get(name, {})} or None for name in tensors)
        else:
            options |= {"do_constant_folding": self.optimize, "training": torch.onnx.TrainingMode.PRESERVE}
            new_name = dict(zip(tensors, names))
            if self.axes:
                options["dynamic_axes"] = {new_name[name]: dict(each) for name, each in self.axes.items()}
        return options


def named_axes(name: str, axes: Mapping[int, str] | Sequence[int]) -> dict[int, str]:
    if isinstance(axes, Mapping):
        return dict(axes)
    return {axis: f"{name}_dynamic_axes_{number}" for number, axis in enumerate(axes, 1)}


def check_axes(axes: Mapping[str, Mapping[int, str]], tensors: Mapping) -> None:
    for name, each in axes.items():
        if name not in tensors:
            raise error("E0104", "input_mismatch", f"dynamic_axes names '{name}', and forward takes no such tensor",
                        f"its tensors are: {', '.join(tensors)}")
        rank = tensors[name].dim()
        for axis in each:
            if not 0 <= axis < rank:
                raise error("E0104", "input_mismatch", f"'{name}' has no axis {axis}: its rank is {rank}",
                            f"give axes from 0 to {rank - 1}" if rank else "it is a scalar")
