"""Exports torch.export programs, created from a model or passed by the caller."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ..arguments import calls
from ..axes import optional_axes
from ..axes.dynamic_axes import Axes
from ..capture import decompositions, exported_programs, lasting_writes, torch_export
from ..capture.comparisons import baked_at_long_sizes, baked_by_export, excludes, without_guards
from ..converters import autograd_functions
from ..errors import Diagnostic, WhenceError, WhenceWarning, error
from ..state.export_settings import log
from ..state.model_state import state_restored
from .job import Job
from .options import shapes_for_torch_export
from .program import Exported


def concerns_operators(failure: WhenceError) -> bool:
    """Returns true for failures about operators, including one that only a missing recorder could decompose."""
    lacks_recorder = failure.code == "E0307" and "op" in failure.diagnostics[0].where
    return lacks_recorder or failure.code in ("E0301", "E0302", "E0303")


def count_dynamic(axes: Axes) -> int:
    return sum(map(len, axes.values()))


def export_by_torch_export(job: Job, call: calls.Call, axes: Axes, min_dynamic: int = 0) -> Exported:
    def run() -> None:
        job.request.model(*call.copies_apart())

    functions = autograd_functions.inlined() if job.request.autograd_inlining else \
        autograd_functions.functions_kept_as_operators(run)
    with job.stage("torch.export"), state_restored(job.request.model), functions, torch.no_grad():
        captured = _captured(job, call, axes)
    program, shapes = captured.program, captured.shapes
    if captured.baked:
        raise WhenceError([replace(captured.baked, severity="error")])
    exported_programs.refuse_constants_without_data(program)
    lasting_writes.refuse_missed_writes(job.observed, job.request.model, call.tensors.values(),
                                        [lambda: program.module(check_guards=False),
                                         lambda: exported_programs.reloaded(program)], lasting_writes.EXPORTED)
    lasting_writes.warn_of_different_results(job.observed, job.request.model, call.tensors.values(),
                                             lambda: program.module(check_guards=False), lasting_writes.EXPORTED)
    name_in_program = dict(zip(call.tensors, program.graph_signature.user_inputs))
    fixed = _fixed_optional(program, shapes, call, axes)
    optional_axes.report_fixed(axes, fixed, WhenceError([captured.why_fixed]) if captured.why_fixed else None)
    dynamic = optional_axes.without(axes, fixed)
    if count_dynamic(dynamic) < min_dynamic:
        raise error("E0304", "baked_size", "torch.export fixes as many sizes as a trace", "export the trace")
    name_in_model = {program_name: name for name, program_name in name_in_program.items()}
    for name, axis, sizes in torch_export.bounds(program, shapes):
        warnings.warn(str(Diagnostic("E0304", "baked_size", "warning", f"the file is valid only if axis {axis} of "
                                     f"'{name_in_model[name]}' is {sizes}: the model has a condition on that size",
                                     "script the module to keep the condition")), WhenceWarning, stacklevel=5)
    return export_program(job, program, name_in_program, dynamic,
                          lambda result: baked_by_export(job.request.model, result, call.tensors, dynamic) is not None)


@dataclass(frozen=True)
class _Captured:
    """The torch.export program and its requested shapes. ``baked``: E0304 if it is wrong at other sizes.
    ``why_fixed``: E0304 of the program before optional axes were fixed."""

    program: Any
    shapes: tuple[Any, ...]
    baked: Diagnostic | None = None
    why_fixed: Diagnostic | None = None


def _captured(job: Job, call: calls.Call, axes: Axes) -> _Captured:
    """Captures a program with as many dynamic axes as possible. PyTorch fixes some optional axes that it would keep
    dynamic if they were required (float(x.shape[1])), so tries these as required. Fixes optional axes at which the
    program is wrong."""
    def attempt(chosen: Axes) -> tuple[Any, tuple[Any, ...]]:
        shapes = shapes_for_torch_export(call.tensors, chosen)
        return torch_export.capture(job.request.model, call.copies_apart(), shapes), shapes

    program, shapes = attempt(axes)
    fixed = _fixed_optional(program, shapes, call, axes)
    if fixed:
        try:
            required, required_shapes = attempt(optional_axes.with_required(axes, fixed))
            if _baked_anywhere(job, required, call, axes) is None:
                return _Captured(required, required_shapes)
        except Exception as failure:  # PyTorch raises exceptions of any class if the model fixes a size
            log.info("torch.export fixes sizes: %s", failure)
    dynamic = optional_axes.without(axes, fixed)
    baked = _baked_anywhere(job, program, call, dynamic)
    if baked and any(True for _ in optional_axes.fixable(dynamic)):
        correct_axes = optional_axes.correct_subset(
            dynamic, lambda chosen: _baked_anywhere(job, program, call, chosen) is None)
        program, shapes = attempt(correct_axes)
        return _Captured(program, shapes, _baked_anywhere(job, program, call, correct_axes), baked)
    return _Captured(program, shapes, baked)


def _fixed_optional(program: Any, shapes: tuple[Any, ...], call: calls.Call, axes: Axes) -> list[tuple[str, int]]:
    dynamic = dict(zip(call.tensors, torch_export.dynamic_axes_of(program, shapes)))
    return [(name, axis) for name, axis, _ in optional_axes.fixable(axes) if axis not in dynamic[name]]


def _baked_anywhere(job: Job, program: Any, call: calls.Call, axes: Axes) -> Diagnostic | None:
    return (baked_by_export(job.request.model, program, call.tensors, axes)
            or baked_at_long_sizes(job.request.model, without_guards(program), call.tensors, axes,
                                   captured_as="exported program",
                                   excluded=partial(excludes, program)))


def export_program(job: Job, program: Any, name_in_program: Mapping[str, str], axes: Axes,
                   is_wrong: Callable[[Any], bool] = lambda decomposed: False) -> Exported:
    job.archive = str(program)
    with tempfile.TemporaryDirectory(prefix="whence-") as folder:
        axes = {name_in_program[name]: each for name, each in axes.items()}
        try:
            _export_archive(job, program, axes, Path(folder))
        except WhenceError as failure:
            if not concerns_operators(failure):
                raise
            _export_decomposed(job, program, axes, Path(folder), failure, is_wrong)
    return job.finish(program)


def _export_archive(job: Job, program: Any, axes: Axes, folder: Path) -> None:
    with job.stage("torch.export.save"):
        saved = exported_programs.save(program, folder / "model.pt2")
    inputs = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}

    def length(name: str, axis: int) -> int:
        size = inputs[name].shape[axis]
        return size if isinstance(size, int) else size.node.hint or 0

    optional_axes.export_with_optional_axes(axes, lambda chosen: job.command(saved, axes=chosen, folder=folder), length)


def _export_decomposed(job: Job, program: Any, axes: Axes, folder: Path, failure: WhenceError,
                is_wrong: Callable[[Any], bool]) -> None:
    """Exports the program with unconvertible operators decomposed by PyTorch.

    First decomposes only the refused operators, so that for example a recurrent network stays one node; if that is not
    enough, all operators. PyTorch uses the example's sizes to decide which results share memory. If the decomposed
    program is wrong at other sizes, raises the first refusal.
    """
    refusal, table = failure, {}
    try:
        while True:
            count = len(table)
            table |= decompositions.for_refused(refusal)
            is_complete = len(table) == count
            with job.stage("run_decompositions"):
                decomposed = program.run_decompositions(None if is_complete else dict(table))
            if is_wrong(decomposed):
                raise failure
            try:
                _export_archive(job, decomposed, axes, folder)
                break
            except WhenceError as second:
                if is_complete or not concerns_operators(second):
                    raise
                refusal = second
    except Exception:  # any class: the user can act only on the model's own operators
        raise failure from None
    job.archive = str(decomposed)
    if warning := decompositions.cost(program, decomposed, failure):
        warnings.warn(str(warning), WhenceWarning, stacklevel=5)
