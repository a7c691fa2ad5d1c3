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


def export(model, args: Sequence[Any] | Any = (), path: str | os.PathLike = "model.onnx", backend: Backend = "native",
           *, kwargs: Mapping[str, Any] | None = None, dynamic_axes: Mapping[str, Mapping[int, str]] | None = None,
           opset: int = 18, sidecar: str | os.PathLike | None = None) -> ExportReport:
    """Exports ``model`` called with ``args`` and ``kwargs`` to ``path``, with the origin of every node in it.

    backend  "native": a trace of the model, exported by whence. "torch-torchscript": torch.onnx.export(dynamo=False),
             recorded while it traces. "torch-dynamo": torch.onnx.export(dynamo=True); its record is that of the program
             that torch.export made for it.
    kwargs   arguments by name; those that are no tensors are fixed in the file.
    dynamic_axes  {"x": {0: "batch"}}: axes that may differ at run time; {"x": [0]} names them as PyTorch does,
             x_dynamic_axes_1 and so on.
    sidecar  where the record goes; beside the file as ``model.whence.json`` by default.

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
    if isinstance(model, torch.jit.ScriptModule):
        return _export_script(model, args, target, backend, kwargs, axes, opset, record_file)

    from . import calls

    with calls.tensors_only(model, args, kwargs) as tensors, warnings.catch_warnings():
        _check_axes(axes, tensors)
        warnings.filterwarnings("ignore", category=torch.jit.TracerWarning)  # told with their source lines by record
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        if backend == "native":
            return _export_native(calls.trace(model, tensors), tensors, target, axes, opset, record_file)
        with record(record_file) as recording:
            _torch_export(model, tensors, target, axes, opset, dynamo=backend == "torch-dynamo")
        if not recording.complete:
            raise error("E0106", "recording_state", "; ".join(map(str, recording.diagnostics)) or "the record is incomplete",
                        "backend='native' reads the trace itself", file=str(record_file))
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
        for axis in each:
            if not 0 <= axis < tensors[name].dim():
                raise error("E0104", "input_mismatch", f"'{name}' has no axis {axis}: its rank is {tensors[name].dim()}",
                            f"give axes from 0 to {tensors[name].dim() - 1}" if tensors[name].dim() else "it is a scalar")


def _export_native(archive, tensors: Mapping, target: Path, axes: dict, opset: int, sidecar: Path) -> ExportReport:
    import torch

    with tempfile.TemporaryDirectory(prefix="whence-") as folder:
        saved, inputs = Path(folder) / "model.pt", Path(folder) / "inputs.pt"
        archive.save(str(saved))
        torch.save({name: tensor.detach().clone() for name, tensor in tensors.items()}, inputs)
        dynamic = []
        for name, each in axes.items():
            dynamic += ["--dynamic", name + ":" + ",".join(f"{axis}={symbol}" for axis, symbol in each.items())]
        run_json("export", saved, "-o", target, "--sidecar-out", sidecar, "--inputs", inputs, "--opset", opset,
                 *dynamic)
    return _finish(target, sidecar)


def _torch_export(model, tensors: Mapping, target: Path, axes: dict, opset: int, dynamo: bool = False) -> None:
    import torch

    if dynamo:
        shapes = {name: {axis: torch.export.Dim.AUTO for axis in axes.get(name, {})} or None for name in tensors}
        options = {"dynamic_shapes": tuple(shapes.values())} if axes else {}
    else:
        options = {"dynamic_axes": axes} if axes else {}
    with torch.no_grad():
        torch.onnx.export(model, tuple(tensors.values()), str(target), input_names=list(tensors), opset_version=opset,
                          dynamo=dynamo, **options)


def _export_script(model, args, target: Path, backend: str, kwargs, axes: dict, opset: int,
                   sidecar: Path) -> ExportReport:
    import torch

    if backend == "torch-dynamo":
        raise error("E0303", "unsupported_feature", "torch.export takes no scripted module",
                    "backend='native' or 'torch-torchscript'")
    names = [argument.name for argument in model.forward.schema.arguments][1:]
    given = dict(zip(names, (args,) if isinstance(args, torch.Tensor) else args)) | dict(kwargs or {})
    _check_axes(axes, given)
    if backend == "native":
        return _export_native(model, given, target, axes, opset, sidecar)
    with tempfile.TemporaryDirectory(prefix="whence-") as folder:
        saved, inputs = Path(folder) / "model.pt", Path(folder) / "inputs.pt"
        model.save(str(saved))
        torch.save({name: tensor.detach().clone() for name, tensor in given.items()}, inputs)
        run_json("record", saved, "-o", sidecar, "--inputs", inputs)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        _torch_export(model, given, target, axes, opset)
    return _finish(target, sidecar)


def _finish(target: Path, sidecar: Path) -> ExportReport:
    return ExportReport(target, sidecar, annotate(target, sidecar), validate(target, sidecar))
