"""Lists the operators of a model that have no converter, without exporting it."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from ..arguments import calls
from ..capture import exported_programs, torch_failures
from ..capture.traces import library_options, operators_of_libraries
from ..command import recorder_library
from ..command.process import run_json
from ..converters import autograd_functions
from ..converters.custom_translations import DEFAULT_OPSET
from ..errors import Diagnostic, WhenceError, error
from ..state.export_settings import exporting, onnx_export_flag
from .options import check_opset


class UnconvertibleOp(str):
    """The name of an operator, "aten::cumprod"; ``diagnostic`` states where it is used, how often, and a remedy."""

    diagnostic: Diagnostic


def unconvertible_ops(model: Any, args: Any = (), opset_version: int = DEFAULT_OPSET, *,
                      kwargs: Mapping[str, Any] | None = None, training: Any = "eval",
                      backend: str = "native") -> list[UnconvertibleOp]:
    """Returns everything that prevents ``whence.export(model, args)``; an empty list if nothing does.

    ``backend`` is "native" (a trace) or "native-export" (torch.export). ``model`` may be a torch.export.ExportedProgram
    or a scripted module. Raises WhenceError as ``export`` does, E0101 for an opset that cannot be exported.
    """
    check_opset(opset_version)
    if backend not in ("native", "native-export"):
        raise error("E0101", "usage", f"backend='{backend}' is not a native backend", "use 'native' or 'native-export'")
    with tempfile.TemporaryDirectory(prefix="whence-") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the export itself warns
        with exporting(model, training, shown=False), onnx_export_flag():
            try:
                archive, inputs = _archive(Path(folder), model, args, kwargs, backend)
            except Exception as raised:  # PyTorch raises exceptions of any class
                failure = torch_failures.as_whence_error(raised, model, args, kwargs)
                if failure is raised:
                    raise
                raise failure from raised
        words = ["--inputs", inputs] if inputs else []
        if isinstance(model, torch.jit.ScriptModule):
            words += library_options(model)
        report = run_json("ops", "--missing", archive, "--opset", opset_version, *words, accepted=(0, 4))
    if "missing" not in report:  # the archive could not be read
        raise WhenceError([Diagnostic.from_json(entry) for entry in report["diagnostics"]])
    operators = []
    for entry in map(Diagnostic.from_json, report["missing"]):
        name = UnconvertibleOp(entry.where.get("op") or entry.message)
        name.diagnostic = entry
        operators.append(name)
    return operators


def _archive(folder: Path, model: Any, args: Any, kwargs: Any, backend: str) -> tuple[Path, Path | None]:
    if isinstance(model, torch.export.ExportedProgram):
        return exported_programs.save(model, folder / "model.pt2"), None
    archive, inputs = folder / "model.pt", folder / "inputs.pt"
    if isinstance(model, torch.jit.ScriptModule):
        model.save(str(archive))
        calls.save_inputs(calls.opened(calls.signature_of(model), args, kwargs).arguments, inputs)
        return archive, inputs
    with calls.tensors_only(model, args, kwargs) as call, autograd_functions.inlined():
        can_trace = backend == "native" and recorder_library.is_installed()
        trace = calls.trace(model, call.tensors) if can_trace else None
        if trace is None or operators_of_libraries(trace):
            with torch.no_grad():
                program = torch.export.export(model, call.copies_apart())
            return exported_programs.save(program, folder / "model.pt2"), None
        trace.save(str(archive))
        calls.save_inputs(call.tensors, inputs)
    return archive, inputs
