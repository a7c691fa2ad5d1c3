"""``whence.accuracy``: compares values of an annotated file with recorded values."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from ..base.keyword_spelling import also_spelled
from ..errors import WhenceError, error, require_list, require_path
from ..files.model_files import Model, takes_models
from ..values import value_file
from ..values.module_globs import matcher, require_matches
from ..values.value_file import Run, Values
from . import (annotated_file, corrected_values, failing_nodes, file_inputs, first_differences, first_operations,
               isolated_modules, measurements, model_structure, precision, recorded_program, reproduction, runtimes, straight_line,
               value_proofs)
from .annotated_file import File
from .assembly import Part, first_difference, modules_of, piece_of, report_of, worst_of
from .file_inputs import ExtraInputs, Feed, InputNames, Overrides
from .first_differences import Limits
from .measurements import MEMORY
from .isolated_modules import IsolatedErrors
from .precision import Like
from .recomputation import Recomputation
from .recorded_program import RecordedProgram
from .report import AccuracyReport, FirstDifference, ModuleAccuracy
from .runtimes import Runtime
from .value_flow import Flow
from .value_proofs import Evidence

_MAX_FAULTS = 64  # maximum number of wrong values to replace


@also_spelled(optimized="optimised")
@takes_models("path")
def accuracy(path: Model, values: Values | str | os.PathLike[str], *,
             sidecar: str | os.PathLike[str] | None = None, runtime: str | None = None,
             provider: str | None = None, outputs: str | os.PathLike[str] | None = None,
             model: Any = None, like: Like | None = None, tolerance: float | None = None, memory: int = MEMORY,
             optimized: bool = False, max_error: Collection[str] = (), input_names: InputNames | None = None,
             extra_inputs: ExtraInputs | None = None, all_faults: bool = False,
             repro: str | os.PathLike[str] | None = None, isolated: bool = False) -> AccuracyReport:
    """Runs an annotated ONNX file on recorded inputs and finds the first module whose values differ from PyTorch's.

    values     the PyTorch model's values from ``record_values``, or the path of their file.
    sidecar    states which operation computed each module's result. Without it, results are found by modules and
               numbers.
    runtime    "onnxruntime" (the default, on ``provider`` or the CPU), "openvino", or "reference" (onnx's evaluator).
    outputs    values from another runtime, instead of running the file: .npz, a folder of .npy files or Polygraphy's
               JSON, by the file's names.
    model      the PyTorch model (live, scripted or a torch.export.ExportedProgram) or its archive. Each module that
               differs then runs alone on the file's values; ``made`` is its error. If it is zero, the module inherited
               the difference.
    like       the file's precision: "float16", "bfloat16" or "int8-dynamic", to which ``model`` (a module) is converted, or
               values recorded in that precision. A value differs only if it is also off by three times as much as
               PyTorch's in that precision.
    tolerance  the relative difference (norm of the difference divided by the norm of the recorded value) above which
               a value differs. The default is ten times the usual increase from one module to the next in this file,
               limited to 1e-5 to 1e-3 for float32 and 1e-3 to 0.05 for float16.
    memory     maximum number of bytes of values at one time. More values take several rounds.
    optimized  let ONNX Runtime optimise the file before it runs. It fuses less than usual, because it must keep every
               compared value.
    max_error  limits of the relative difference, for all modules or some: ["1e-3", "1e-2@encoder.*"]. Modules above
               their limit are listed in ``findings``.
    input_names  recorded names by the file's input names: {"attention_mask": "mask"}. All other inputs are paired by
               name, then by position.
    extra_inputs  inputs of the file that were not recorded: arrays by the file's names, or .npz or .pt files.
    all_faults  after the first difference, put PyTorch's result in the place of the wrong value, run the file again, and so
               on: ``faults`` are all first differences. Needs completely recorded results (``full`` of ``record_values``).
    repro      a new folder for the nodes at which the first difference begins, as an ONNX file with inputs, PyTorch's
               result, a script that fails without whence, and a text for an issue. ``bundle`` states what was written.
    isolated   run ONNX Runtime in processes of its own: if it crashes, the report names the first module that does not run.

    Raises WhenceError: E0101, E0102, E0104 if an input of the file has no tensor or does not fit its tensor, E02xx for
    unreadable files, E0206 for values of another model, E0207 if the runtime fails, E0307 without the runtime.
    """
    require_list(max_error)
    limits = [_limit(each) for each in max_error]
    _require_numbers(tolerance, memory)
    overrides = file_inputs.overrides_of(input_names, extra_inputs)
    file = annotated_file.read(path)
    recorded = recorded_of(values)
    program = recorded_program.read(sidecar) if sidecar is not None else None
    file_runtime = runtime_of(file, runtime, provider, optimized, outputs, overrides, isolated)
    if all_faults and not file_runtime.provider:
        raise error("E0101", "usage", "all faults are found in ONNX Runtime only", "omit runtime and outputs")
    runs = recorded.runs if file_runtime.rounds else recorded.runs[:1]
    if model is not None:
        model = isolated_modules.model_of(model, recorded, runs[0])
    comparison = _Comparison(recorded, program, tolerance, memory, overrides, model, like,
                             lambda part: runtime_of(part, runtime, provider, optimized, isolated=isolated))
    comparisons = [comparison.straight(file, run, file_runtime) for run in runs]
    try:
        parts = [each.part(straight, run, straight_runtime)
                 for (each, straight, straight_runtime), run in zip(comparisons, runs, strict=True)]
    except WhenceError as stop:
        if stop.code != "E0207" or not file_runtime.provider:
            raise
        parts = [comparison.until_failure(file, runs, stop)]
    report = report_of(file, parts, recorded, file_runtime)
    part = worst_of(parts)
    comparison, file, _ = comparisons[parts.index(part)] if part.failure is None else (comparison, file, file_runtime)
    if part.failure is not None:
        report = replace(report, findings=(_finding_of(report.beginnings[-1]),))
    if all_faults:
        faults, reason = comparison.later_faults(file, part)
        report = replace(report, faults=tuple(first_difference(each, each.first) for each in faults),
                         notes=(*report.notes, *([reason] if reason else [])))
    if repro is not None:
        report = replace(report, bundle=comparison.reproduce(Path(repro), file, part, report, file_runtime))
    if not limits:
        return report
    require_matches([glob for _, glob in limits], {each.module for each in report.modules})
    return replace(report, limits=tuple(max_error), findings=(
        *report.findings, *_findings([modules_of(part) for part in parts], limits)))


def accuracy_on(path: str | os.PathLike[str], values: Values, feed: Mapping[str, torch.Tensor],
                tolerance: float) -> AccuracyReport:
    """Runs the file on ``feed`` and compares it with the first recorded run. Raises WhenceError like ``accuracy``."""
    file = annotated_file.read(path)
    file_runtime = runtimes.onnxruntime(file)
    part = _part(file, values, values.runs[0], file_runtime, None, tolerance, MEMORY, feed=Feed(dict(feed)))
    return report_of(file, [part], values, file_runtime)


@dataclass(frozen=True)
class _Comparison:
    """What is compared with the file, and how."""

    recorded: Values
    program: RecordedProgram | None
    tolerance: float | None
    memory: int
    overrides: Overrides
    model: Any
    like: Like | None
    start: Callable[[File], Runtime]

    def straight(self, file: File, run: Run, runtime: Runtime) -> tuple[_Comparison, File, Runtime]:
        """Returns the straight line of the file for the run, and what it is compared with."""
        if not runtime.provider or not straight_line.has_bodies(file):
            return self, file, runtime
        feed = measurements.feed_of(file, self.recorded, run, self.overrides).tensors
        line, program = straight_line.of_run(file, self.program, run, self.start, feed)
        return replace(self, program=program), line, runtime if line is file else self.start(line)

    def part(self, file: File, run: Run, runtime: Runtime, explained: Mapping[str, float] | None = None,
             as_it_is: bool = True) -> Part:
        """Measures one run. ``explained``: the errors that the precision explains, if they are known from an earlier
        measurement of the run, because another one runs the model."""
        if explained is None and self.like is not None:
            explained = precision.errors_by_key(self.like, self.model, self.recorded, run)
        return _part(file, self.recorded, run, runtime, self.program, self.tolerance, self.memory, self.overrides,
                     model=None if isinstance(self.like, str) and self.like in precision.FORMATS else self.model,
                     explained=explained, as_it_is=as_it_is)

    def until_failure(self, file: File, runs: list[Run], stop: WhenceError) -> Part:
        """Returns the measurement of the nodes before the first one that fails in any run, or of all nodes if the file runs
        when all results are requested. Raises ``stop`` if no node is known to fail."""
        found = ((run, failing_nodes.find(file, self.start, measurements.feed_of(file, self.recorded, run, self.overrides).tensors))
                 for run in runs)
        run, failure = next(((run, failure) for run, failure in found if failure is not None),
                            (runs[0], failing_nodes.named_in(stop, file)))
        if failure is None:
            raise stop
        part = replace(self, model=None).part(failure.before, run, self.start(failure.before), as_it_is=False)
        return replace(part, failure=failure)

    def later_faults(self, file: File, part: Part) -> tuple[list[Part], str]:
        """Returns the measurements in which a difference is the first: ``part``, then of the file with PyTorch's results
        in place of the wrong values found so far. Also returns why it stopped, or an empty string if nothing differs any
        more."""
        found: list[Part] = []
        corrections = corrected_values.Corrections(file)
        feed, run = part.measurement.feed.tensors, part.measurement.calls.run
        while part.first is not None:
            found.append(part)
            measured = part.first.measured
            actual = dict(self.start(part.flow.file).take(feed, [measured.value])).get(measured.value)
            value = None if actual is None else corrected_values.correct_value(part.flow.file, self.recorded, measured, actual)
            if part.failure is not None or value is None or measured.value in corrections.supplied or len(found) == _MAX_FAULTS:
                return found, (f"differences after {measured.value} are not separated from it: it was not recorded "
                               f"completely (full=), or the file does not run")
            corrected = corrections.supply(measured.value, value)
            try:
                part = self.part(corrected, run, self.start(corrected), part.limits.explained)
            except WhenceError as failure:
                if failure.code != "E0207":
                    raise
                return found, f"with PyTorch's result for {measured.value}, the file does not run"
        return found, ""

    def reproduce(self, folder: Path, file: File, part: Part, report: AccuracyReport, computed_by: Runtime) -> str:
        piece = piece_of(part)
        if piece is None:
            return "no bundle was written: nothing differs"
        if not computed_by.provider:
            return "no bundle was written: its script runs ONNX Runtime, which did not compute these values"
        runtime = self.start(part.flow.file)
        return reproduction.write(folder, file, piece, report.first, self.recorded, part.measurement.feed.tensors, runtime,
                                  part.limits.general, part.program)


def _finding_of(failed: FirstDifference) -> dict[str, Any]:
    return {"module": failed.module, "call": failed.call, "run": 0, "source": failed.source, "value": failed.value,
            "limit": 0.0, "relative": None, "message": f"{failed} does not run: {failed.failure}"}


def _part(file: File, recorded: Values, run: Run, runtime: Runtime, program: RecordedProgram | None,
          tolerance: float | None, memory: int, overrides: Overrides = Overrides(), feed: Feed | None = None,
          model: Any = None, explained: Mapping[str, float] | None = None, as_it_is: bool = True) -> Part:
    number_format = measurements.number_format_of(file)
    measurement = measurements.measure(file, recorded, run, runtime, program,
                                       number_format.min_limit if tolerance is None else tolerance, memory,
                                       overrides, feed, as_it_is)
    flow = Flow(file, measurement)
    limits = first_differences.limits(flow, number_format) if tolerance is None else Limits(tolerance, tolerance)
    limits = replace(limits, explained=explained or {})
    first_differences.resolve_layouts(flow, limits)
    if first_differences.drop_implausible(flow, limits.general):
        flow = Flow(file, measurement)
    if first_differences.follow_wrong_sizes(flow):
        flow = Flow(file, measurement)
    evidence = Evidence(flow, recorded)
    misplaced = evidence.misplaced(flow, limits, runtime)
    if evidence.move_to_equal(flow, limits, misplaced):
        flow = Flow(file, measurement)
    again = Recomputation(recorded, runtime, measurement.feed.tensors, number_format.epsilon)
    beginnings, isolated_errors = again.remaining(flow, limits, first_differences.find(flow, limits)), IsolatedErrors()
    if model is not None:
        isolated_errors = isolated_modules.measure(flow, recorded, run, model, runtime, limits.unquantised, memory)
        beginnings = first_differences.corrected(flow, limits, beginnings, isolated_errors)
    part = Part(flow, limits, number_format.name if tolerance is None else "as given", beginnings, isolated_errors,
                evidence, [value_proofs.contradiction(flow, each) for each in misplaced], recorded, program)
    if program is None or part.first is None:
        return part
    return replace(part, operation=first_operations.beginning_in(flow, part.first, limits, recorded, program, runtime, memory))


def _limit(text: str) -> tuple[float, str]:
    number, _, glob = text.partition("@")
    try:
        limit = float(number)
    except ValueError:
        limit = -1.0
    if not limit >= 0 or not math.isfinite(limit):
        raise error("E0101", "usage", f"invalid error limit '{text}'", "pass a number, or 1e-3@encoder.*")
    return limit, glob or "**"


def _require_numbers(tolerance: float | None, memory: int) -> None:
    if tolerance is not None and not (isinstance(tolerance, (int, float)) and 0 <= tolerance < math.inf):
        raise error("E0101", "usage", f"invalid tolerance {tolerance!r}", "pass a number, such as 1e-3")
    if not isinstance(memory, int) or isinstance(memory, bool) or memory < 1:
        raise error("E0101", "usage", f"memory={memory!r} is not a number of bytes", "pass an int, such as 2 << 30")


def recorded_of(values: Values | str | os.PathLike[str]) -> Values:
    """Returns the values, which may be a file, with at least one run. Raises WhenceError E0101, E02xx."""
    if not isinstance(values, Values):
        require_path(values, "values")
        values = value_file.read(values)
    if not values.runs:
        raise error("E0204", "corrupt_file", f"{values.place} contains no run", "record the values again")
    return values


def runtime_of(file: File, name: str | None = None, provider: str | None = None, optimized: bool = False,
               outputs: str | os.PathLike[str] | None = None, overrides: Overrides = Overrides(),
               isolated: bool = False) -> Runtime:
    """Returns the runtime for the file, or one that reads ``outputs``. Raises WhenceError E0101, E0307."""
    if outputs is not None:
        if name is not None or provider is not None or optimized or overrides != Overrides():
            raise error("E0101", "usage", "with outputs of another runtime, the file does not run",
                        "omit runtime, provider, optimized and inputs, or omit outputs")
        return runtimes.stored_values(outputs, file)
    model_structure.require_weights(file.path, file.model)
    if name not in (None, "onnxruntime") and (provider is not None or optimized):
        raise error("E0101", "usage", f"provider and optimized are for ONNX Runtime, not for {name}",
                    "omit provider and optimized")
    if name in (None, "onnxruntime"):
        return runtimes.onnxruntime(file, provider or "CPUExecutionProvider", optimized, isolated)
    if name == "openvino":
        return runtimes.openvino(file)
    if name == "reference":
        return runtimes.reference(file)
    raise error("E0101", "usage", f"unknown runtime '{name}'", "choose from onnxruntime, openvino, reference")


def _findings(runs: list[tuple[ModuleAccuracy, ...]], limits: list[tuple[float, str]]) -> tuple[dict[str, Any], ...]:
    """Returns the worst run of each module call that is above its limit. If several limits match, the last one
    applies."""
    matchers = [(limit, matcher([glob])) for limit, glob in limits]
    findings: dict[tuple[str, int], dict[str, Any]] = {}
    for number, row in ((number, row) for number, modules in enumerate(runs) for row in modules):
        limit = next((limit for limit, matches in reversed(matchers) if matches(row.module)), None)
        if limit is None or row.status == "not observable" or row.relative <= limit:
            continue
        relative = row.relative if math.isfinite(row.relative) else None
        earlier = findings.get((row.module, row.call))
        if earlier is not None and (
                earlier["relative"] is None or relative is not None and relative <= earlier["relative"]):
            continue
        where = f" in run {number}" if len(runs) > 1 else ""
        findings[row.module, row.call] = {
            "module": row.module, "call": row.call, "run": number, "source": row.source, "value": row.value,
            "limit": limit, "relative": relative,
            "message": f"{row.name} is off by {row.relative:.3g}{where}; the limit is {limit:g}"}
    return tuple(findings.values())
