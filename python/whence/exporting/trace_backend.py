"""Exports a trace of a model. Uses torch.export instead if the model cannot be traced, or if the trace cannot be
converted or is correct only for the example."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from ..arguments import calls
from ..axes import optional_axes
from ..axes.dynamic_axes import Axes
from ..capture import lasting_writes
from ..capture.comparisons import baked_at_long_sizes
from ..capture.other_inputs import at_usual_sizes
from ..capture.traces import (Trace, find_baked_size, library_options, operators_of_libraries,
                              possibly_renamed_operators, run_of, traced)
from ..command import recorder_library
from ..converters import autograd_functions, torch_symbolics
from ..errors import Diagnostic, WhenceError, WhenceWarning, error
from ..state.export_settings import log, quiet
from .job import Job
from .program import Exported
from .program_backend import concerns_operators, count_dynamic, export_by_torch_export


def export_trace(job: Job, call: calls.Call, axes: Axes) -> Exported:
    if not job.request.autograd_inlining:
        raise error("E0303", "unsupported_feature", "a trace cannot keep a torch.autograd.Function",
                    "backend='native-export', or autograd_inlining=True")
    if not recorder_library.is_installed():
        return _without_recorder(job, call, axes)
    try:
        with job.stage("trace"), autograd_functions.inlined():
            trace = traced(job.request.model, call.tensors, axes)
        example, trace = _usual_example(job, call, axes, trace)
    except WhenceError:
        raise
    except Exception as failure:  # the model and PyTorch raise exceptions of any class
        return _by_torch_export(job, call, axes, failure)
    if trace.ignores_inputs and (program := _keeping_all_inputs(job, call, axes)):
        return program
    trace.warn_of_values()
    library_operators = operators_of_libraries(trace.module)
    translated = {each.split(".")[0] for each in job.options.translations}
    if library_operators or (renamed := possibly_renamed_operators(trace.module) & translated):
        log.info("%s: %s, so torch.export captures the model", ", ".join(library_operators or renamed),
                 "registered only in this process" if library_operators else "a trace has another name for it")
        job.options = replace(job.options, symbolics=_symbolics(job) & set(library_operators))
        return replace(export_by_torch_export(job, call, axes), backend="native-export")
    try:
        lasting_writes.refuse_missed_writes(
            job.observed, job.request.model, call.tensors.values(), [lambda: calls.reloaded(trace.module, call.tensors)],
            lasting_writes.TRACE)
    except WhenceError as failure:
        return _by_torch_export(job, call, axes, failure)
    lasting_writes.warn_of_different_results(job.observed, job.request.model, call.tensors.values(),
                                             lambda: run_of(trace.module, call.tensors), lasting_writes.TRACE)
    if not trace.baked_size:
        trace = replace(trace, baked_size=_wrong_at_other_sizes(job, call, axes, trace))
    if trace.baked_size:
        return _at_any_size(job, call, axes, trace, example)
    try:
        return export_archive(job, trace.module, example, named_by_pytorch(axes))
    except WhenceError as failure:
        if not concerns_operators(failure) and failure.code not in _TRACE_FAILURES:
            raise
        return _by_torch_export(job, call, axes, failure)


def _without_recorder(job: Job, call: calls.Call, axes: Axes) -> Exported:
    """Exports by torch.export. If that fails, warns that a trace, which needs the recorder, may succeed."""
    log.info("torch.export captures the model: %s", recorder_library.missing())
    try:
        return replace(export_by_torch_export(job, call, axes), backend="native-export")
    except Exception:  # PyTorch raises exceptions of any class
        warnings.warn(f"the model is not traced: {recorder_library.missing()}", WhenceWarning, stacklevel=5)
        raise


def _wrong_at_other_sizes(job: Job, call: calls.Call, axes: Axes, trace: Trace) -> Diagnostic | None:
    """Returns E0304 if the trace, which is correct near the example's sizes, fails or is wrong at other sizes."""
    return (trace.fails and find_baked_size(job.request.model, trace.module, call.tensors, axes, trace.size_uses)
            or baked_at_long_sizes(job.request.model, run_of(trace.module, call.tensors), call.tensors, axes,
                                   trace.size_uses))


def _keeping_all_inputs(job: Job, call: calls.Call, axes: Axes) -> Exported | None:
    """Exports by torch.export a model that read an input's value in Python, so that the trace ignores that input.
    Returns None if torch.export does not keep the input either."""
    options = job.options
    try:
        return _by_torch_export(job, call, axes, WhenceError([]))
    except WhenceError as failure:
        log.info("torch.export does not keep the inputs that the trace ignores: %s", failure)
        job.options = options
        return None


def _usual_example(job: Job, call: calls.Call, axes: Axes, trace: Trace) -> tuple[Mapping[str, torch.Tensor], Trace]:
    """Returns an example and its trace. If the caller's example has one token or an empty past and its trace is wrong
    at other sizes, uses an example of usual sizes, provided that its trace is correct at the caller's sizes."""
    usual = at_usual_sizes(call.tensors, axes)
    if usual is None or not find_baked_size(job.request.model, trace.module, call.tensors, axes):
        return call.tensors, trace
    try:
        with job.stage("trace"), autograd_functions.inlined():
            usual_trace = traced(job.request.model, usual, axes)
        if find_baked_size(job.request.model, usual_trace.module, call.tensors, axes) is None:
            return usual, usual_trace
    except Exception as failure:  # the model may raise any exception at these sizes
        log.info("the model is not traced at sizes other than the example's: %s", failure)
    return call.tensors, trace


# Failures of a trace that torch.export may avoid: fixed sizes, failed runs in LibTorch, and defects.
_TRACE_FAILURES = ("E0304", "E0207", "E0901")


def _at_any_size(job: Job, call: calls.Call, axes: Axes, trace: Trace,
                 example: Mapping[str, torch.Tensor]) -> Exported:
    """Exports a model whose trace contains a size of the example. torch.export may keep the size dynamic or report that
    the model fixes it. If it does neither, raises its error if any axis is required; otherwise exports the trace, fixes
    the optional axes at which it is wrong, and warns about them."""
    def baked_size(chosen: Axes) -> Diagnostic | None:
        return (find_baked_size(job.request.model, trace.module, call.tensors, chosen, trace.size_uses)
                or baked_at_long_sizes(job.request.model, run_of(trace.module, call.tensors), call.tensors, chosen))

    correct = {} if not _all_optional(axes) else \
        optional_axes.correct_subset(axes, lambda chosen: baked_size(chosen) is None)
    is_correct = _all_optional(axes) and baked_size(correct) is None
    try:
        return _by_torch_export(job, call, axes, WhenceError([replace(trace.baked_size, severity="error")]),
                                 min_dynamic=count_dynamic(correct) + 1 if is_correct and count_dynamic(correct) else 0)
    except WhenceError:
        if not _all_optional(axes):
            raise
    fixed = [(name, axis) for name, each in axes.items() for axis in each if axis not in correct[name]]
    optional_axes.report_fixed(axes, fixed, WhenceError([trace.baked_size]))
    if not is_correct:
        warnings.warn(str(trace.baked_size), WhenceWarning, stacklevel=5)
    return export_archive(job, trace.module, example, named_by_pytorch(correct))


def _all_optional(axes: Axes) -> bool:
    return all(spec.may_be_fixed for specs in axes.values() for spec in specs.values())


def _by_torch_export(job: Job, call: calls.Call, axes: Axes, failure: Exception, min_dynamic: int = 0) -> Exported:
    """Exports by torch.export a model that cannot be traced, or whose trace cannot be converted.

    If that fails too, or leaves fewer than ``min_dynamic`` axes dynamic, raises ``failure``, which concerns the
    requested backend. For a model that cannot be traced, raises whence's error about the exported program.
    """
    log.info("torch.export captures the model instead of a trace: %s", failure)
    try:
        with warnings.catch_warnings(record=True) as warnings_of_export, quiet():
            warnings.simplefilter("always", WhenceWarning)
            exported = replace(export_by_torch_export(job, call, axes, min_dynamic), backend="native-export")
    except Exception as second:  # any class
        raise second if isinstance(second, WhenceError) and not isinstance(failure, WhenceError) else failure from None
    for warning in warnings_of_export:
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return exported


def _symbolics(job: Job) -> frozenset[str]:
    """Returns the operators that a user's symbolic functions convert, except those with a translation."""
    return torch_symbolics.registered(job.options.opset) - set(job.options.translations)


def named_by_pytorch(axes: Axes) -> Axes:
    """Returns the axes with torch.onnx.export's names for unnamed ones: a trace has no names for sizes."""
    return {name: {axis: spec if spec.name else replace(spec, name=f"{name}_dynamic_axes_{number}")
                   for number, (axis, spec) in enumerate(specs.items(), 1)} for name, specs in axes.items()}


def export_archive(job: Job, archive: torch.jit.ScriptModule, inputs: Mapping[str, Any], axes: Axes) -> Exported:
    """Exports an archive with the optional axes that the model does not fix."""
    job.options = replace(job.options, symbolics=_symbolics(job))
    with tempfile.TemporaryDirectory(prefix="whence-") as folder:
        saved, input_file = Path(folder) / "model.pt", Path(folder) / "inputs.pt"
        archive.save(str(saved))
        job.archive = str(archive.graph)
        calls.save_inputs(inputs, input_file)
        words = ["--inputs", input_file, *default_dtype_words(), *library_options(archive)]
        optional_axes.export_with_optional_axes(
            axes, lambda chosen: job.command(saved, *words, axes=chosen, folder=Path(folder)),
            lambda name, axis: inputs[name].shape[axis])
    return job.finish()


def default_dtype_words() -> list[str]:
    """Returns the option that passes this process's default dtype to the command."""
    dtype = torch.get_default_dtype()
    return [] if dtype is torch.float32 else ["--default-dtype", str(dtype).removeprefix("torch.")]
