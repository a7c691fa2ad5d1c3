"""Exports a trace of a model. torch.export reads the model where the trace cannot be made or converted, or is right for the
example alone."""

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
from ..capture.traces import Trace, library_words, of_libraries, run_of, size_baked, traced, traced_otherwise
from ..command import recorder_library
from ..converters import autograd_functions, torch_symbolics
from ..errors import Diagnostic, WhenceError, WhenceWarning, error
from ..state.export_settings import log, quiet
from .job import Job
from .program import Exported
from .program_backend import concerns_operators, count_open, export_by_torch_export


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
    except Exception as failure:  # the model raises of every kind, and so does PyTorch
        return _instead_of_trace(job, call, axes, failure)
    if trace.ignores_inputs and (kept := _with_all_inputs(job, call, axes)):
        return kept
    trace.warn_of_values()
    taught = of_libraries(trace.module)
    translated = {each.split(".")[0] for each in job.options.translations}
    if taught or (renamed := traced_otherwise(trace.module) & translated):
        log.info("%s: %s, so torch.export reads the model", ", ".join(taught or renamed),
                 "only this process knows how to run it" if taught else "a trace has another name for it")
        job.options = replace(job.options, symbolics=_symbolics(job) & set(taught))
        return replace(export_by_torch_export(job, call, axes), backend="native-export")
    try:
        lasting_writes.refuse_what_was_missed(
            job.observed, job.request.model, call.tensors.values(), [lambda: calls.reloaded(trace.module, call.tensors)],
            lasting_writes.TRACE)
    except WhenceError as failure:
        return _instead_of_trace(job, call, axes, failure)
    lasting_writes.warn_of_other_results(job.observed, job.request.model, call.tensors.values(),
                                         lambda: run_of(trace.module, call.tensors), lasting_writes.TRACE)
    if not trace.baked_size:
        trace = replace(trace, baked_size=_wrong_elsewhere(job, call, axes, trace))
    if trace.baked_size:
        return _at_any_size(job, call, axes, trace, example)
    try:
        return export_archive(job, trace.module, example, named_by_pytorch(axes))
    except WhenceError as failure:
        if not concerns_operators(failure) and failure.code not in _OF_THE_TRACE:
            raise
        return _instead_of_trace(job, call, axes, failure)


def _without_recorder(job: Job, call: calls.Call, axes: Axes) -> Exported:
    """torch.export reads the model. Where it cannot, a trace may do, which is said beside the failure."""
    log.info("torch.export reads the model: %s", recorder_library.missing())
    try:
        return replace(export_by_torch_export(job, call, axes), backend="native-export")
    except Exception:  # PyTorch raises of every kind
        warnings.warn(f"the model is not traced: {recorder_library.missing()}", WhenceWarning, stacklevel=5)
        raise


def _wrong_elsewhere(job: Job, call: calls.Call, axes: Axes, trace: Trace) -> Diagnostic | None:
    """E0304 where the trace, which is right near the example's sizes, fails or is wrong at others."""
    return (trace.fails and size_baked(job.request.model, trace.module, call.tensors, axes, trace.of_sizes)
            or baked_at_long_sizes(job.request.model, run_of(trace.module, call.tensors), call.tensors, axes, trace.of_sizes))


def _with_all_inputs(job: Job, call: calls.Call, axes: Axes) -> Exported | None:
    """The export by torch.export of a model of which a trace ignores an input, as Python read its value; None where
    torch.export, too, does not keep the input open."""
    options = job.options
    try:
        return _instead_of_trace(job, call, axes, WhenceError([]))
    except WhenceError as failure:
        log.info("torch.export does not keep the inputs that the trace ignores: %s", failure)
        job.options = options
        return None


def _usual_example(job: Job, call: calls.Call, axes: Axes, trace: Trace) -> tuple[Mapping[str, torch.Tensor], Trace]:
    """The example and its trace; those at usual sizes where a step of one token, or one that nothing precedes, has
    been traced and is not right at others, and that trace is."""
    usual = at_usual_sizes(call.tensors, axes)
    if usual is None or not size_baked(job.request.model, trace.module, call.tensors, axes):
        return call.tensors, trace
    try:
        with job.stage("trace"), autograd_functions.inlined():
            other = traced(job.request.model, usual, axes)
        if size_baked(job.request.model, other.module, call.tensors, axes) is None:
            return usual, other
    except Exception as failure:  # the model does not run at these sizes, with errors of every kind
        log.info("the model is not traced at other sizes than the example's: %s", failure)
    return call.tensors, trace


# Failures of a trace that say nothing of what torch.export makes of the model: a size that the trace holds, its run in
# LibTorch, and defects.
_OF_THE_TRACE = ("E0304", "E0207", "E0901")


def _at_any_size(job: Job, call: calls.Call, axes: Axes, trace: Trace,
                 example: Mapping[str, torch.Tensor]) -> Exported:
    """torch.export keeps what a trace bakes in, or says that the model fixes the size. Where it does neither, promised
    sizes are refused, and of sizes that are wishes those are fixed with which the trace is wrong, and that is said."""
    def wrong(chosen: Axes) -> Diagnostic | None:
        return (size_baked(job.request.model, trace.module, call.tensors, chosen, trace.of_sizes)
                or baked_at_long_sizes(job.request.model, run_of(trace.module, call.tensors), call.tensors, chosen))

    right = optional_axes.without_baked(axes, lambda chosen: wrong(chosen) is None) if _all_optional(axes) else {}
    is_right = _all_optional(axes) and wrong(right) is None
    try:
        return _instead_of_trace(job, call, axes, WhenceError([replace(trace.baked_size, severity="error")]),
                                 least_open=count_open(right) + 1 if is_right and count_open(right) else 0)
    except WhenceError:
        if not _all_optional(axes):
            raise
    fixed = [(name, axis) for name, each in axes.items() for axis in each if axis not in right[name]]
    optional_axes.report_fixed(axes, fixed, WhenceError([trace.baked_size]))
    if not is_right:
        warnings.warn(str(trace.baked_size), WhenceWarning, stacklevel=5)
    return export_archive(job, trace.module, example, named_by_pytorch(right))


def _all_optional(axes: Axes) -> bool:
    return all(what.may_be_fixed for each in axes.values() for what in each.values())


def _instead_of_trace(job: Job, call: calls.Call, axes: Axes, failure: Exception, least_open: int = 0) -> Exported:
    """Exports by torch.export a model that cannot be traced, or whose trace cannot be converted.

    Where that fails too, or leaves fewer than ``least_open`` axes dynamic, raises ``failure``, which is about the backend that the user asked for; for a model that
    cannot be traced, raises whence's error about the exported program.
    """
    log.info("torch.export reads the model instead of a trace: %s", failure)
    try:
        with warnings.catch_warnings(record=True) as caught, quiet():
            warnings.simplefilter("always", WhenceWarning)
            done = replace(export_by_torch_export(job, call, axes, least_open), backend="native-export")
    except Exception as second:  # any kind
        raise second if isinstance(second, WhenceError) and not isinstance(failure, WhenceError) else failure from None
    for each in caught:
        warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
    return done


def _symbolics(job: Job) -> frozenset[str]:
    """Operators that a user's symbolic functions convert, and no translation does."""
    return torch_symbolics.registered(job.options.opset) - set(job.options.translations)


def named_by_pytorch(axes: Axes) -> Axes:
    """Axes without a name are called as torch.onnx.export calls them: a trace has no names of its own for sizes."""
    return {name: {axis: what if what.name else replace(what, name=f"{name}_dynamic_axes_{number}")
                   for number, (axis, what) in enumerate(each.items(), 1)} for name, each in axes.items()}


def export_archive(job: Job, archive: torch.jit.ScriptModule, inputs: Mapping[str, Any], axes: Axes) -> Exported:
    """The export, with those wishes that the model does not fix."""
    job.options = replace(job.options, symbolics=_symbolics(job))
    with tempfile.TemporaryDirectory(prefix="whence-") as folder:
        saved, given = Path(folder) / "model.pt", Path(folder) / "inputs.pt"
        archive.save(str(saved))
        job.archive = str(archive.graph)
        calls.save_inputs(inputs, given)
        words = ["--inputs", given, *default_dtype_words(), *library_words(archive)]
        optional_axes.honoured(axes, lambda chosen: job.command(saved, *words, axes=chosen, folder=Path(folder)),
                               lambda name, axis: inputs[name].shape[axis])
    return job.finish()


def default_dtype_words() -> list[str]:
    """For the command, a process of its own."""
    dtype = torch.get_default_dtype()
    return [] if dtype is torch.float32 else ["--default-dtype", str(dtype).removeprefix("torch.")]
