"""Record, export, annotate and validate in one call, whichever exporter does the work."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from .command import run_json
from .errors import error
from .plugin import record
from .reports import AnnotateReport, ValidationReport, annotate, validate

Backend = Literal["native", "torch-dynamo", "torch-torchscript"]


@dataclass(frozen=True)
class ExportReport:
    """An exported, annotated and validated file."""

    path: Path
    sidecar: Path
    annotated: AnnotateReport
    validation: ValidationReport


@dataclass(frozen=True)
class _Options:
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
            options |= {"do_constant_folding": self.optimize}
            new_name = dict(zip(tensors, names))
            if self.axes:
                options["dynamic_axes"] = {new_name[name]: dict(each) for name, each in self.axes.items()}
        return options


def export(model, args: Sequence[Any] | Any = (), path: str | os.PathLike = "model.onnx", backend: Backend = "native",
           *, kwargs: Mapping[str, Any] | None = None, dynamic_axes: Mapping[str, Mapping[int, str]] | None = None,
           opset: int = 18, sidecar: str | os.PathLike | None = None, input_names: Sequence[str] = (),
           output_names: Sequence[str] = (), optimize: bool = True, export_params: bool = True,
           keep_initializers_as_inputs: bool = False, external_data: bool = False,
           report: str | os.PathLike | None = None) -> ExportReport:
    """Exports ``model`` called with ``args`` and ``kwargs`` to ``path``, with the origin of every node in it.

    backend  "native": a trace of the model, exported by whence. "torch-torchscript": torch.onnx.export(dynamo=False),
             recorded while it traces. "torch-dynamo": torch.onnx.export(dynamo=True); its record is that of the program
             that torch.export made for it.
    kwargs   arguments by name; those that are no tensors are fixed in the file.
    dynamic_axes  {"x": {0: "batch"}}: axes that may differ at run time; {"x": [0]} names them as PyTorch does,
             x_dynamic_axes_1 and so on.
    sidecar  where the record goes; beside the file as ``model.whence.json`` by default.
    input_names, output_names  in order; inputs that are left have forward's names.
    optimize, export_params, keep_initializers_as_inputs  as torch.onnx.export has them.
    external_data  the weights in a file beside the model; by itself above 2 GiB.
    report   a Markdown report of the export ("native"), written when it fails, too.

    ``model`` may be a torch.jit.ScriptModule ("native" and "torch-torchscript"). Raises WhenceError with the command's
    codes: E0301 for operators without a converter, E0104 for arguments that do not fit, E0303 for what the backend
    cannot do, E0106 when the record is incomplete (``path`` then holds the export without annotation). Exceptions of
    PyTorch's own exporters pass through.
    """
    import torch

    target = Path(path)
    record_file = Path(sidecar) if sidecar else target.with_suffix(".whence.json")
    if backend not in ("native", "torch-dynamo", "torch-torchscript"):
        raise error("E0101", "usage", f"there is no backend '{backend}'", "native, torch-dynamo or torch-torchscript")
    if not isinstance(model, torch.nn.Module):
        raise error("E0104", "input_mismatch", f"the model is a {type(model).__name__}, not a torch.nn.Module",
                    "wrap what computes in a module: its forward is what is exported")
    axes = {name: _named_axes(name, each) for name, each in (dynamic_axes or {}).items()}
    if report and backend != "native":
        raise error("E0101", "usage", f"report is of the native backend, not of {backend}", "leave it out")
    options = _Options(opset, axes, tuple(input_names), tuple(output_names), optimize, export_params,
                       keep_initializers_as_inputs, external_data, report)
    if isinstance(model, torch.jit.ScriptModule):
        return _export_script(model, args, target, backend, kwargs, options, record_file)

    from . import calls

    with calls.tensors_only(model, args, kwargs) as tensors, warnings.catch_warnings():
        _check_axes(axes, tensors)
        warnings.filterwarnings("ignore", category=torch.jit.TracerWarning)  # told with their source lines by record
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        if backend == "native":
            return _export_native(calls.trace(model, tensors), tensors, target, options, record_file)
        with record(record_file) as recording:
            _torch_export(model, tensors, target, options, dynamo=backend == "torch-dynamo")
        if not recording.complete:
            said = "; ".join(map(str, recording.diagnostics)) or "the record is incomplete"
            raise error("E0106", "recording_state", said, "backend='native' reads the trace itself",
                        file=str(record_file))
    return _finish(target, record_file)


def _named_axes(name: str, axes: Mapping[int, str] | Sequence[int]) -> dict[int, str]:
    if isinstance(axes, Mapping):
        return dict(axes)
    return {axis: f"{name}_dynamic_axes_{number}" for number, axis in enumerate(axes, 1)}


def _check_axes(axes: Mapping[str, Mapping[int, str]], tensors: Mapping) -> None:
    for name, each in axes.items():
        if name not in tensors:
            raise error("E0104", "input_mismatch", f"dynamic_axes names '{name}', and forward takes no such tensor",
                        f"its tensors are: {', '.join(tensors)}")
        rank = tensors[name].dim()
        for axis in each:
            if not 0 <= axis < rank:
                raise error("E0104", "input_mismatch", f"'{name}' has no axis {axis}: its rank is {rank}",
                            f"give axes from 0 to {rank - 1}" if rank else "it is a scalar")


def _export_native(archive, tensors: Mapping, target: Path, options: _Options, sidecar: Path) -> ExportReport:
    import torch

    with tempfile.TemporaryDirectory(prefix="whence-") as folder:
        saved, inputs = Path(folder) / "model.pt", Path(folder) / "inputs.pt"
        archive.save(str(saved))
        torch.save({name: tensor.detach().clone() for name, tensor in tensors.items()}, inputs)
        run_json("export", saved, "-o", target, "--sidecar-out", sidecar, "--inputs", inputs, *options.for_command())
    return _finish(target, sidecar)


def _torch_export(model, tensors: Mapping, target: Path, options: _Options, dynamo: bool = False) -> None:
    import torch

    with torch.no_grad():
        torch.onnx.export(model, tuple(tensors.values()), str(target), **options.for_torch(tensors, dynamo))


def _export_script(model, args, target: Path, backend: str, kwargs, options: _Options, sidecar: Path) -> ExportReport:
    import torch

    if backend == "torch-dynamo":
        raise error("E0303", "unsupported_feature", "torch.export takes no scripted module",
                    "backend='native' or 'torch-torchscript'")
    names = [argument.name for argument in model.forward.schema.arguments][1:]
    given = dict(zip(names, (args,) if isinstance(args, torch.Tensor) else args)) | dict(kwargs or {})
    _check_axes(options.axes, given)
    if backend == "native":
        return _export_native(model, given, target, options, sidecar)
    with tempfile.TemporaryDirectory(prefix="whence-") as folder:
        saved, inputs = Path(folder) / "model.pt", Path(folder) / "inputs.pt"
        model.save(str(saved))
        torch.save({name: tensor.detach().clone() for name, tensor in given.items()}, inputs)
        run_json("record", saved, "-o", sidecar, "--inputs", inputs)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        _torch_export(model, given, target, options)
    return _finish(target, sidecar)


def _finish(target: Path, sidecar: Path) -> ExportReport:
    return ExportReport(target, sidecar, annotate(target, sidecar), validate(target, sidecar))
