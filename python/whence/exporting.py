"""Record, export, annotate and validate in one call, whichever exporter does the work."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from .command import run_json
from .errors import WhenceError, WhenceWarning, error
from .options import Options, check_axes, named_axes, translation_table
from .plugin import record
from .reports import AnnotateReport, ValidationReport, annotate, validate

Backend = Literal["native", "native-export", "torch-dynamo", "torch-torchscript"]
BACKENDS = ("native", "native-export", "torch-dynamo", "torch-torchscript")
Training = Literal["eval", "preserve", "train"]


@dataclass(frozen=True)
class ExportReport:
    """An exported, annotated and validated file."""

    path: Path
    sidecar: Path
    annotated: AnnotateReport
    validation: ValidationReport
    backend: str = "native"
    fell_back: tuple[tuple[str, str], ...] = ()  # the backends that were tried before, and why each failed


def export(model, args: Sequence[Any] | Any = (), path: str | os.PathLike = "model.onnx",
           backend: Backend | Sequence[Backend] = "native", *, kwargs: Mapping[str, Any] | None = None,
           dynamic_axes: Mapping[str, Mapping[int, str] | Sequence[int]] | None = None, opset: int = 18,
           training: Training = "eval", sidecar: str | os.PathLike | None = None, input_names: Sequence[str] = (),
           output_names: Sequence[str] = (), optimize: bool = True, export_params: bool = True,
           keep_initializers_as_inputs: bool = False, external_data: bool = False,
           report: str | os.PathLike | None = None,
           custom_translation_table: Mapping[Any, Any] | None = None) -> ExportReport:
    """Exports ``model`` called with ``args`` and ``kwargs`` to ``path``, with the origin of every node in it.

    backend  "native": a trace of the model, exported by whence. "native-export": what torch.export makes of it,
             exported by whence; operators that Python registered are known there alone. "torch-torchscript":
             torch.onnx.export(dynamo=False), recorded while it traces. "torch-dynamo": torch.onnx.export(dynamo=True);
             its record is that of the program that torch.export made for it. Several are a chain: where one fails, the
             next is tried, and told.
    training the mode in which the model is exported; its own comes back, also after an error. A scripted module keeps
             the mode that it has.
    kwargs   arguments by name; those that are no tensors are fixed in the file.
    dynamic_axes  {"x": {0: "batch"}}: axes that may differ at run time; {"x": [0]} names them as PyTorch does,
             x_dynamic_axes_1 and so on.
    sidecar  where the record goes; beside the file as ``model.whence.json`` by default.
    input_names, output_names  in order; inputs that are left have forward's names.
    optimize, export_params, keep_initializers_as_inputs  as torch.onnx.export has them.
    external_data  the weights in a file beside the model; by itself above 2 GiB.
    report   a Markdown report of the export (native backends), written when it fails, too.
    custom_translation_table  {torch.ops.mylib.op.default: function}: your own converters, as onnxscript functions or
             FunctionProtos, also in the place of whence's (native backends; the file holds what it calls). They
             take the operator's tensors in the order of its schema; attributes have the names of its arguments.

    ``model`` may be a torch.jit.ScriptModule ("native" and "torch-torchscript"). Raises WhenceError with the command's
    codes: E0301 for operators without a converter, E0104 for arguments that do not fit, E0303 for what the backend
    cannot do, E0106 when the record is incomplete (``path`` then holds the export without annotation). Exceptions of
    PyTorch's own exporters pass through.
    """
    import torch

    target = Path(path)
    record_file = Path(sidecar) if sidecar else target.with_suffix(".whence.json")
    chain = (backend,) if isinstance(backend, str) else tuple(backend)
    for each in chain:
        if each not in BACKENDS:
            raise error("E0101", "usage", f"there is no backend '{each}'", "one of " + ", ".join(BACKENDS))
    if not chain or training not in ("eval", "preserve", "train"):
        raise error("E0101", "usage", f"backend={backend!r}, training={training!r} say nothing that can be done",
                    "training is 'eval', 'preserve' or 'train'; backend one or more of its kinds")
    if not isinstance(model, torch.nn.Module):
        raise error("E0104", "input_mismatch", f"the model is a {type(model).__name__}, not a torch.nn.Module",
                    "wrap what computes in a module: its forward is what is exported")
    axes = {name: named_axes(name, each) for name, each in (dynamic_axes or {}).items()}
    foreign = [each for each in chain if not each.startswith("native")]
    for name, given in (("report", report), ("custom_translation_table", custom_translation_table)):
        if given and foreign:
            raise error("E0101", "usage", f"{name} is of the native backends, not of {foreign[0]}",
                        "leave it out, or give it to torch.onnx.export itself")
    options = Options(opset, axes, tuple(input_names), tuple(output_names), optimize, export_params,
                      keep_initializers_as_inputs, external_data, report, translation_table(custom_translation_table))
    fell_back: list[tuple[str, str]] = []
    with _mode(model, training):
        for each in chain:
            try:
                done = _export_by(each, model, args, kwargs, target, options, record_file)
                return replace(done, backend=each, fell_back=tuple(fell_back))
            except Exception as failure:  # PyTorch's exporters raise of every kind
                if each == chain[-1] or isinstance(failure, WhenceError) and failure.code in ("E0101", "E0104"):
                    raise
                fell_back.append((each, str(failure)))
                warnings.warn(f"the backend {each} failed, the next is tried: {failure}", WhenceWarning, stacklevel=2)
    raise AssertionError("the last backend returns or raises")


@contextmanager
def _mode(model, training: Training) -> Iterator[None]:
    import torch

    if training == "preserve" or isinstance(model, torch.jit.ScriptModule):
        yield
        return
    before = [(module, module.training) for module in model.modules()]
    try:
        model.train(training == "train")
        yield
    finally:
        for module, was_training in before:
            module.training = was_training


def _export_by(backend: Backend, model, args, kwargs, target: Path, options: Options, sidecar: Path) -> ExportReport:
    import torch

    if isinstance(model, torch.jit.ScriptModule):
        return _export_script(model, args, target, backend, kwargs, options, sidecar)

    from . import calls

    with calls.tensors_only(model, args, kwargs) as tensors, warnings.catch_warnings():
        check_axes(options.axes, tensors)
        warnings.filterwarnings("ignore", category=torch.jit.TracerWarning)  # told with their source lines by record
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        if backend == "native":
            return _export_native(calls.trace(model, tensors), tensors, target, options, sidecar)
        if backend == "native-export":
            return _export_program(model, tensors, target, options, sidecar)
        with record(sidecar) as recording:
            _torch_export(model, tensors, target, options, dynamo=backend == "torch-dynamo")
        if not recording.complete:
            said = "; ".join(map(str, recording.diagnostics)) or "the record is incomplete"
            raise error("E0106", "recording_state", said, "backend='native' reads the trace itself", file=str(sidecar))
    return _finish(target, sidecar)


def _export_native(archive, tensors: Mapping, target: Path, options: Options, sidecar: Path) -> ExportReport:
    import torch

    with tempfile.TemporaryDirectory(prefix="whence-") as folder:
        saved, inputs = Path(folder) / "model.pt", Path(folder) / "inputs.pt"
        archive.save(str(saved))
        torch.save({name: tensor.detach().clone() for name, tensor in tensors.items()}, inputs)
        run_json("export", saved, "-o", target, "--sidecar-out", sidecar, "--inputs", inputs,
                 *options.for_command(Path(folder)))
    return _finish(target, sidecar)


def _export_program(model, tensors: Mapping, target: Path, options: Options, sidecar: Path) -> ExportReport:
    import torch

    from . import exported

    shapes = {name: {axis: torch.export.Dim.DYNAMIC for axis in options.axes.get(name, {})} or None for name in tensors}
    with torch.no_grad():
        program = torch.export.export(model, tuple(tensors.values()), dynamic_shapes=tuple(shapes.values()))
    with tempfile.TemporaryDirectory(prefix="whence-") as folder:
        saved = exported.save(program, Path(folder) / "model.pt2")
        run_json("export", saved, "-o", target, "--sidecar-out", sidecar, *options.for_command(Path(folder)))
    return _finish(target, sidecar)


def _torch_export(model, tensors: Mapping, target: Path, options: Options, dynamo: bool = False) -> None:
    import torch

    with torch.no_grad():
        torch.onnx.export(model, tuple(tensors.values()), str(target), **options.for_torch(tensors, dynamo))


def _export_script(model, args, target: Path, backend: str, kwargs, options: Options, sidecar: Path) -> ExportReport:
    import torch

    if backend in ("torch-dynamo", "native-export"):
        raise error("E0303", "unsupported_feature", "torch.export takes no scripted module",
                    "backend='native' or 'torch-torchscript'")
    names = [argument.name for argument in model.forward.schema.arguments][1:]
    given = dict(zip(names, (args,) if isinstance(args, torch.Tensor) else args)) | dict(kwargs or {})
    check_axes(options.axes, given)
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
