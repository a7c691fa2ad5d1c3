"""``whence.accuracy``: an annotated file against recorded values."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import torch

from ..base.keyword_spelling import also_spelled
from ..errors import error, require_list, require_path
from ..files.model_files import Model, takes_models
from ..values import value_file
from ..values.module_globs import matcher, require_matches
from ..values.value_file import Run, Values
from . import (annotated_file, file_inputs, first_differences, first_operations, measurements, modules_alone,
               recorded_program, runtimes, without_weights)
from .annotated_file import File
from .assembly import Part, modules_of, report_of
from .file_inputs import ExtraInputs, Feed, InputNames, Supplied
from .first_differences import Limits
from .measurements import MEMORY
from .modules_alone import Made
from .recorded_program import RecordedProgram
from .report import AccuracyReport, ModuleAccuracy
from .runtimes import Runtime
from .value_flow import Flow
from .value_proofs import Evidence


@also_spelled(optimized="optimised")
@takes_models("path")
def accuracy(path: Model, values: Values | str | os.PathLike[str], *,
             sidecar: str | os.PathLike[str] | None = None, runtime: str | None = None,
             provider: str | None = None, outputs: str | os.PathLike[str] | None = None,
             model: Any = None, tolerance: float | None = None, memory: int = MEMORY, optimized: bool = False,
             max_error: Collection[str] = (), input_names: InputNames | None = None,
             extra_inputs: ExtraInputs | None = None) -> AccuracyReport:
    """Runs an annotated ONNX file on recorded inputs and says which module is the first whose values differ.

    values     what ``record_values`` recorded of the PyTorch model, or its file.
    sidecar    says which operation made each module's result; without it modules are found by the nodes around them.
    runtime    "onnxruntime" (the default, on ``provider`` or the CPU), "openvino" or "reference", onnx's own evaluator.
    outputs    instead of running the file: values that another runtime left, as .npz, a folder of .npy or Polygraphy's
               JSON, under the file's names.
    model      the PyTorch model, scripted or a torch.export.ExportedProgram too, or its archive. Each module that differs
               is then run alone on what the file gives it: ``made`` is the error that it makes itself, and where that
               is none, the difference was inherited.
    tolerance  the relative difference (length of the difference by that of what was recorded) from which on a value
               differs. By default ten times what is usual from one module to the next in this file, within bounds
               for what it computes in: 1e-5 to 1e-3 for float32, 1e-3 to 0.05 for float16.
    memory     bytes of values that are held at once; more of them are taken in rounds.
    optimized  let ONNX Runtime optimise the file before it runs. Values that are asked for are not fused away, so that
               is not how it runs without.
    max_error  limits of the relative difference, of all modules or of some: ["1e-3", "1e-2@encoder.*"]. Modules
               above are ``findings``.
    input_names  recorded names by the file's: {"attention_mask": "mask"}. Others are paired by name, then by position.
    extra_inputs  inputs of the file that were not recorded: arrays by its names, or files of them, .npz or .pt.

    Raises WhenceError: E0101, E0102, E0104 where an input of the file has no tensor, or one that does not fit, E02xx for files
    that cannot be read, E0206 for values of another model, E0207 when the runtime does not run the file, E0307 without
    the runtime.
    """
    require_list(max_error)
    limits = [_limit(each) for each in max_error]
    _require_numbers(tolerance, memory)
    said = file_inputs.supplied(input_names, extra_inputs)
    file = annotated_file.read(path)
    recorded = recorded_of(values)
    program = recorded_program.read(sidecar) if sidecar is not None else None
    taken = runtime_of(file, runtime, provider, optimized, outputs, said)
    runs = recorded.runs if taken.rounds else recorded.runs[:1]
    if model is not None:
        model = modules_alone.model_of(model, recorded, runs[0])
    parts = [_part(file, recorded, run, taken, program, tolerance, memory, said, model=model) for run in runs]
    report = report_of(file, parts, recorded, taken, program)
    if not limits:
        return report
    require_matches([glob for _, glob in limits], {each.module for each in report.modules})
    return replace(report, limits=tuple(max_error), findings=_findings([modules_of(part, program) for part in parts], limits))


def accuracy_on(path: str | os.PathLike[str], values: Values, feed: Mapping[str, torch.Tensor],
                tolerance: float) -> AccuracyReport:
    """The same for a run that was just recorded, of a file that is given ``feed``. Raises as ``accuracy`` does."""
    file = annotated_file.read(path)
    taken = runtimes.onnxruntime(file)
    part = _part(file, values, values.runs[0], taken, None, tolerance, MEMORY, feed=Feed(dict(feed)))
    return report_of(file, [part], values, taken, None)


def _part(file: File, recorded: Values, run: Run, runtime: Runtime, program: RecordedProgram | None,
          tolerance: float | None, memory: int, said: Supplied = Supplied(), feed: Feed | None = None,
          model: Any = None) -> Part:
    kind = measurements.kind_of(file)
    measurement = measurements.measure(file, recorded, run, runtime, program,
                                       kind.least if tolerance is None else tolerance, memory, said, feed)
    flow = Flow(file, measurement)
    limits = first_differences.limits(flow, kind) if tolerance is None else Limits(tolerance, tolerance)
    first_differences.settle_layouts(flow, limits)
    if first_differences.forget_impossible(flow, limits.whole):
        flow = Flow(file, measurement)
    begun, made = first_differences.find(flow, limits), Made()
    if model is not None:
        made = modules_alone.measure(flow, recorded, run, model, runtime, limits.exact, memory)
        begun = first_differences.corrected(flow, limits, begun, made)
    evidence = Evidence(flow, recorded)
    part = Part(flow, limits, kind.name if tolerance is None else "as given", begun, made, evidence,
                evidence.contradictions(flow, limits, runtime))
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
        raise error("E0101", "usage", f"'{text}' is not a limit of an error", "give a number, or 1e-3@encoder.*")
    return limit, glob or "**"


def _require_numbers(tolerance: float | None, memory: int) -> None:
    if tolerance is not None and not (isinstance(tolerance, (int, float)) and 0 <= tolerance < math.inf):
        raise error("E0101", "usage", f"{tolerance!r} is not a tolerance", "give a number, such as 1e-3")
    if not isinstance(memory, int) or isinstance(memory, bool) or memory < 1:
        raise error("E0101", "usage", f"{memory!r} is not a number of bytes", "give an int, such as 2 << 30")


def recorded_of(values: Values | str | os.PathLike[str]) -> Values:
    """The values, or those of the file, with one run at least. Raises WhenceError E0101, E02xx."""
    if not isinstance(values, Values):
        require_path(values, "values")
        values = value_file.read(values)
    if not values.runs:
        raise error("E0204", "corrupt_file", f"{values.place} holds no run", "record the values again")
    return values


def runtime_of(file: File, name: str | None = None, provider: str | None = None, optimized: bool = False,
               outputs: str | os.PathLike[str] | None = None, said: Supplied = Supplied()) -> Runtime:
    """Runs the file, or gives what another runtime left. Raises WhenceError E0101, E0307."""
    if outputs is not None:
        if name is not None or provider is not None or optimized or said != Supplied():
            raise error("E0101", "usage", "values that another runtime left are given, so that nothing runs",
                        "without runtime, provider, optimized and what inputs are given, or without outputs")
        return runtimes.dumped(outputs, file)
    without_weights.require_weights(file.path, file.model)
    if name not in (None, "onnxruntime") and (provider is not None or optimized):
        raise error("E0101", "usage", f"providers and optimisation are ONNX Runtime's, and the runtime is {name}",
                    "without provider and optimized")
    if name in (None, "onnxruntime"):
        return runtimes.onnxruntime(file, provider or "CPUExecutionProvider", optimized)
    if name == "openvino":
        return runtimes.openvino(file)
    if name == "reference":
        return runtimes.reference(file)
    raise error("E0101", "usage", f"there is no runtime '{name}'", "one of onnxruntime, openvino, reference")


def _findings(runs: list[tuple[ModuleAccuracy, ...]], limits: list[tuple[float, str]]) -> tuple[dict[str, Any], ...]:
    """The worst of all runs for each call of a module. The limit that was given last counts, of those whose glob matches.
    """
    matchers = [(limit, matcher([glob])) for limit, glob in limits]
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for number, each in ((number, each) for number, modules in enumerate(runs) for each in modules):
        limit = next((limit for limit, matches in reversed(matchers) if matches(each.module)), None)
        if limit is None or each.status == "not observable" or each.relative <= limit:
            continue
        relative = each.relative if math.isfinite(each.relative) else None
        before = found.get((each.module, each.call))
        if before is not None and (before["relative"] is None or relative is not None and relative <= before["relative"]):
            continue
        where = f" in run {number}" if len(runs) > 1 else ""
        found[each.module, each.call] = {
            "module": each.module, "call": each.call, "run": number, "source": each.source, "value": each.value,
            "limit": limit, "relative": relative,
            "message": f"{each.name} is off by {each.relative:.3g}{where}, the limit is {limit:g}"}
    return tuple(found.values())
