"""The options of an export in the words of the command and of torch.onnx.export."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    translations: Mapping[str, Any]  # "mylib::op" -> FunctionProto

    def for_command(self, folder: Path) -> list:
        """The words of the command; files that it needs go to ``folder``."""
        words: list = ["--opset", self.opset]
        for name, each in self.axes.items():
            words += ["--dynamic", name + ":" + ",".join(f"{axis}={symbol}" for axis, symbol in each.items())]
        words += ["--input-names", ",".join(self.input_names)] if self.input_names else []
        words += ["--output-names", ",".join(self.output_names)] if self.output_names else []
        words += ["--report", self.report] if self.report else []
        if self.translations:
            words += ["--functions", write_functions(self.translations, folder / "functions.onnx")]
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


def translation_table(table: Mapping[Any, Any] | None) -> dict[str, Any]:
    """{"mylib::op": FunctionProto}, of a table as torch.onnx.export takes it: operators, or their names, and onnxscript
    functions or FunctionProtos. Raises WhenceError E0104."""
    functions = {}
    for operator, function in (table or {}).items():
        name = operator if isinstance(operator, str) else getattr(getattr(operator, "_schema", None), "name", None)
        if not name or "::" not in name:
            raise error("E0104", "input_mismatch", f"{operator!r} is no operator",
                        "give torch.ops.mylib.op.default, or its name: 'mylib::op'")
        if hasattr(function, "to_function_proto"):
            function = function.to_function_proto()
        if type(function).__name__ != "FunctionProto":
            raise error("E0104", "input_mismatch", f"the translation of {name} is a {type(function).__name__}",
                        "give a function made by @onnxscript.script(), or an onnx.FunctionProto")
        functions[name] = function
    return functions


def write_functions(translations: Mapping[str, Any], path: Path) -> Path:
    """A model file that holds the functions under the names by which the command finds them."""
    import onnx

    model = onnx.ModelProto(ir_version=10)
    for name, function in translations.items():
        copy = model.functions.add()
        copy.CopyFrom(function)
        namespace, _, copy.name = name.partition("::")
        copy.domain = f"whence.{namespace}"
    path.write_bytes(model.SerializeToString())
    return path


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
