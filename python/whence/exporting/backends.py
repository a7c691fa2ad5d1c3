"""Chooses how to export a model to an annotated file, by backend and by kind of model."""

from __future__ import annotations

import copy
import tempfile
import warnings
from dataclasses import replace
from pathlib import Path

import torch

from ..arguments import calls, trees
from ..axes import sliding_windows
from ..capture import exported_programs, lasting_writes
from ..capture.traces import library_options
from ..command import recorder_library
from ..command.process import run_json
from ..errors import WhenceWarning, error
from ..recording.record import record
from .job import Job
from .program import Exported
from .program_backend import export_by_torch_export, export_program
from .torch_exporters import output_names_of, run_torch_onnx
from .trace_backend import default_dtype_words, export_archive, export_trace, named_by_pytorch


def export_by(backend: str, job: Job) -> Exported:
    if isinstance(job.request.model, torch.export.ExportedProgram):
        return _exported_program(backend, job)
    if isinstance(job.request.model, torch.jit.ScriptModule):
        return _scripted(backend, job)
    if any(True for _ in trees.caches_in((job.request.args, job.request.kwargs))):
        call = calls.opened(job.request.model.forward, job.request.args, job.request.kwargs)
        sliding_windows.keep_all_keys(call, job.axes_of(call))
        if warning := sliding_windows.counts_in_python(call):
            warnings.warn(str(warning), WhenceWarning, stacklevel=4)
    with calls.tensors_only(job.request.model, job.request.args, job.request.kwargs) as call, warnings.catch_warnings():
        job.call = call
        axes = job.axes_of(call)
        job.options = replace(job.options, input_names=call.input_names(job.options.input_names))
        job.observed = lasting_writes.observe(job.request.model, job.request.model, call.tensors)
        warnings.filterwarnings("ignore", category=torch.jit.TracerWarning)  # recorded with source lines
        if backend == "native":
            return export_trace(job, call, axes)
        if backend == "native-export":
            return export_by_torch_export(job, call, axes)
        job.options = replace(job.options, output_names=output_names_of(job))
        with record(job.sidecar) as recording:
            run_torch_onnx(job, job.request.model, call.tensors, axes, dynamo=backend == "torch-dynamo")
        if not recording.complete:
            message = "; ".join(map(str, recording.diagnostics)) or "the sidecar is incomplete"
            raise error("E0106", "recording_state", message, "use backend='native', which needs no recording",
                        file=str(job.sidecar))
    return job.finish()


def _exported_program(backend: str, job: Job) -> Exported:
    """Exports a torch.export.ExportedProgram, which already contains its arguments and dynamic sizes."""
    if backend not in ("native-export", "torch-dynamo"):
        raise error("E0303", "unsupported_feature", f"backend='{backend}' exports modules, not exported programs",
                    "use backend='native-export' or 'torch-dynamo'")
    exported_programs.refuse_constants_without_data(job.request.model)
    if backend == "native-export":
        return export_program(job, job.request.model, {}, {})
    job.observed = lasting_writes.observe_program(job.request.model)
    with record(job.sidecar), torch.no_grad():
        torch.onnx.export(job.request.model, (), str(job.target),
                          **job.options.for_torch({}, {}, True) | job.request.for_torch_dynamo())
    return job.finish(job.request.model)


def _scripted(backend: str, job: Job) -> Exported:
    if backend in ("torch-dynamo", "native-export"):
        raise error("E0303", "unsupported_feature", "torch.export does not accept scripted modules",
                    "use backend='native' or 'torch-torchscript'")
    if not recorder_library.is_installed():
        raise recorder_library.missing()
    job.call = call = calls.opened(calls.signature_of(job.request.model), job.request.args, job.request.kwargs)
    arguments = call.arguments
    axes = named_by_pytorch(job.axes_of(call))
    job.observed = lasting_writes.observe_script(job.request.model, arguments)
    if backend == "native":
        return export_archive(job, job.request.model, arguments, axes)
    with tempfile.TemporaryDirectory(prefix="whence-") as folder:
        saved, inputs = Path(folder) / "model.pt", Path(folder) / "inputs.pt"
        job.request.model.save(str(saved))
        calls.save_inputs(arguments, inputs)
        run_json("record", saved, "-o", job.sidecar, "--inputs", inputs, *default_dtype_words(),
                 *library_options(job.request.model))
    run_torch_onnx(job, copy.deepcopy(job.request.model), arguments, axes)  # Python cannot restore its state
    return job.finish()
