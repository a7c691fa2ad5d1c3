"""Exports what torch.export makes of a model, or a program that it made before."""

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
    """True, too, for an operator that the recorder alone could take apart, where none is installed."""
    lacks_recorder = failure.code == "E0307" and "op" in failure.diagnostics[0].where
    return lacks_recorder or failure.code in ("E0301", "E0302", "E0303")


def count_open(axes: Axes) -> int:
    return sum(map(len, axes.values()))


def export_by_torch_export(job: Job, call: calls.Call, axes: Axes, least_open: int = 0) -> Exported:
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
    lasting_writes.refuse_what_was_missed(job.observed, job.request.model, call.tensors.values(),
                                          [lambda: program.module(check_guards=False),
                                           lambda: exported_programs.reloaded(program)], lasting_writes.EXPORTED)
    lasting_writes.warn_of_other_results(job.observed, job.request.model, call.tensors.values(),
                                         lambda: program.module(check_guards=False), lasting_writes.EXPORTED)
    name_in_program = dict(zip(call.tensors, program.graph_signature.user_inputs))
    fixed = _fixed_wishes(program, shapes, call, axes)
    optional_axes.report_fixed(axes, fixed, WhenceError([captured.why_fixed]) if captured.why_fixed else None)
    left_dynamic = optional_axes.without(axes, fixed)
    if count_open(left_dynamic) < least_open:
        raise error("E0304", "baked_size", "torch.export fixes as many sizes as a trace", "export the trace")
    own_name = {theirs: name for name, theirs in name_in_program.items()}
    for name, axis, sizes in torch_export.bounds(program, shapes):
        warnings.warn(str(Diagnostic("E0304", "baked_size", "warning", f"the file holds where axis {axis} of "
                                     f"'{own_name[name]}' is {sizes}: the model has a condition on that size",
                                     "script the module, so that the condition stays")), WhenceWarning, stacklevel=5)
    return export_program(job, program, name_in_program, left_dynamic,
                          lambda parts: baked_by_export(job.request.model, parts, call.tensors, left_dynamic) is not None)


@dataclass(frozen=True)
class _Captured:
    """The program of torch.export, the shapes asked of it, E0304 where it is wrong at other sizes, and where it would
    have been if wishes were not fixed."""

    program: Any
    shapes: tuple[Any, ...]
    baked: Diagnostic | None = None
    why_fixed: Diagnostic | None = None


def _captured(job: Job, call: calls.Call, axes: Axes) -> _Captured:
    """PyTorch fixes a wish that it would keep as a promise (float(x.shape[1])), so such a wish is asked for as one. A wish
    with which the program is wrong is fixed."""
    def attempt(chosen: Axes) -> tuple[Any, tuple[Any, ...]]:
        shapes = shapes_for_torch_export(call.tensors, chosen)
        return torch_export.captured(job.request.model, call.copies_apart(), shapes), shapes

    program, shapes = attempt(axes)
    fixed = _fixed_wishes(program, shapes, call, axes)
    if fixed:
        try:
            firm, firm_shapes = attempt(optional_axes.with_required(axes, fixed))
            if _baked_anywhere(job, firm, call, axes) is None:
                return _Captured(firm, firm_shapes)
        except Exception as failure:  # PyTorch raises of every kind where the model fixes a size
            log.info("torch.export fixes sizes: %s", failure)
    left = optional_axes.without(axes, fixed)
    baked = _baked_anywhere(job, program, call, left)
    if baked and any(True for _ in optional_axes.fixable(left)):
        right = optional_axes.without_baked(left, lambda chosen: _baked_anywhere(job, program, call, chosen) is None)
        program, shapes = attempt(right)
        return _Captured(program, shapes, _baked_anywhere(job, program, call, right), baked)
    return _Captured(program, shapes, baked)


def _fixed_wishes(program: Any, shapes: tuple[Any, ...], call: calls.Call, axes: Axes) -> list[tuple[str, int]]:
    left = dict(zip(call.tensors, torch_export.left_open(program, shapes)))
    return [(name, axis) for name, axis, _ in optional_axes.fixable(axes) if axis not in left[name]]


def _baked_anywhere(job: Job, program: Any, call: calls.Call, axes: Axes) -> Diagnostic | None:
    return (baked_by_export(job.request.model, program, call.tensors, axes)
            or baked_at_long_sizes(job.request.model, without_guards(program), call.tensors, axes, holder="exported program",
                                   excluded=partial(excludes, program)))


def export_program(job: Job, program: Any, name_in_program: Mapping[str, str], axes: Axes,
                   is_wrong: Callable[[Any], bool] = lambda parts: False) -> Exported:
    job.archive = str(program)
    with tempfile.TemporaryDirectory(prefix="whence-") as folder:
        axes = {name_in_program[name]: each for name, each in axes.items()}
        try:
            _saved(job, program, axes, Path(folder))
        except WhenceError as failure:
            if not concerns_operators(failure):
                raise
            _decomposed(job, program, axes, Path(folder), failure, is_wrong)
    return job.finish(program)


def _saved(job: Job, program: Any, axes: Axes, folder: Path) -> None:
    with job.stage("torch.export.save"):
        saved = exported_programs.save(program, folder / "model.pt2")
    inputs = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}

    def length(name: str, axis: int) -> int:
        size = inputs[name].shape[axis]
        return size if isinstance(size, int) else size.node.hint or 0

    optional_axes.honoured(axes, lambda chosen: job.command(saved, axes=chosen, folder=folder), length)


def _decomposed(job: Job, program: Any, axes: Axes, folder: Path, failure: WhenceError,
                is_wrong: Callable[[Any], bool]) -> None:
    """Exports the parts that PyTorch knows an operator by, where it cannot be converted as a whole.

    First those of the refused operators alone, so that a recurrent network beside them stays one node; the parts of all
    operators where that is not enough. PyTorch decides by the example's sizes which of the parts share memory, so
    parts that are wrong at other sizes are left, and the first refusal stands.
    """
    refused, table = failure, {}
    try:
        while True:
            known = len(table)
            table |= decompositions.of_refused(refused)
            all_of_them = len(table) == known
            with job.stage("run_decompositions"):
                parts = program.run_decompositions(None if all_of_them else dict(table))
            if is_wrong(parts):
                raise failure
            try:
                _saved(job, parts, axes, folder)
                break
            except WhenceError as still:
                if all_of_them or not concerns_operators(still):
                    raise
                refused = still
    except Exception:  # any kind: what the model holds is what the user can change
        raise failure from None
    job.archive = str(parts)
    if told := decompositions.cost(program, parts, failure):
        warnings.warn(str(told), WhenceWarning, stacklevel=5)
