"""``whence.accuracy``: an annotated file against recorded values."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from ..errors import error, require_list
from ..values import container
from ..values.container import Run, Values
from ..values.globs import matcher
from . import beginnings, measuring, origins, recorded_program, runtimes
from .beginnings import Beginning
from .measuring import MEMORY, Measured, Measurement
from .origins import RANDOM, File, Node
from .recorded_program import RecordedProgram
from .report import AccuracyReport, FirstDifference, ModuleAccuracy
from .runtimes import Runtime


def accuracy(model: str | os.PathLike, values: Values | str | os.PathLike, *,
             sidecar: str | os.PathLike | None = None, runtime: str = "onnxruntime",
             provider: str = "CPUExecutionProvider", outputs: str | os.PathLike | None = None,
             tolerance: float | None = None, memory: int = MEMORY, optimised: bool = False,
             max_error: Collection[str] = ()) -> AccuracyReport:
    """Runs an annotated ONNX file on recorded inputs and says which module is the first whose values differ.

    values     what ``record_values`` recorded of the PyTorch model, or its file.
    sidecar    says which operation made each module's result; without it modules are found by the nodes around them.
    runtime    "onnxruntime" (with ``provider``), "openvino" or "reference", onnx's own evaluator.
    outputs    instead of running the file: values that another runtime left, as .npz, a folder of .npy or Polygraphy's
               JSON, under the file's names.
    tolerance  the relative difference (length of the difference by that of what was recorded) from which on a value
               differs. By default ten times what is usual from one module to the next in this file, within bounds
               for what it computes in: 1e-5 to 1e-3 for float32, 1e-3 to 0.05 for float16.
    memory     bytes of values that are held at once; more of them are taken in rounds.
    optimised  let ONNX Runtime optimise the file before it runs. Values that are asked for are not fused away, so that
               is not how it runs without.
    max_error  limits of the relative difference, of all modules or of some: ["1e-3", "1e-2@encoder.*"]. Modules
               above are ``findings``.

    Raises WhenceError: E0101, E0102, E0104 when the file's inputs are not those that were recorded, E02xx for files
    that cannot be read, E0206 for values of another model, E0207 when the runtime does not run the file, E0307 without
    the runtime.
    """
    require_list(max_error)
    limits = [_limit(each) for each in max_error]
    file = origins.read(model)
    recorded = values if isinstance(values, Values) else container.read(values)
    if not recorded.runs:
        raise error("E0204", "corrupt_file", f"{recorded.place} holds no run", "record the values again")
    program = recorded_program.read(sidecar) if sidecar else None
    taken = runtimes.dumped(outputs) if outputs else _runtime(file, runtime, provider, optimised)
    runs = recorded.runs[:1] if outputs else recorded.runs
    parts = [_part(file, recorded, run, taken, program, tolerance, memory) for run in runs]
    report = _report(file, parts, recorded, taken, program)
    return replace(report, findings=tuple(_findings(report.modules, limits)))


def accuracy_on(model: str | os.PathLike, values: Values, feed: Mapping[str, torch.Tensor],
                tolerance: float) -> AccuracyReport:
    """The same for a run that was just recorded, of a file that is given ``feed``. Raises as ``accuracy`` does."""
    file = origins.read(model)
    taken = runtimes.onnxruntime(file)
    return _report(file, [_part(file, values, values.runs[0], taken, None, tolerance, MEMORY, feed)], values, taken, None)


@dataclass(frozen=True)
class _Part:
    """The measurement of one run, and where differences begin in it."""

    measurement: Measurement
    limit: float       # from which on values differ
    limit_of: str
    begun: list[Beginning]


def _part(file: File, recorded: Values, run: Run, runtime: Runtime, program: RecordedProgram | None,
          tolerance: float | None, memory: int, feed: Mapping[str, torch.Tensor] | None = None) -> _Part:
    kind = measuring.kind_of(file)
    measurement = measuring.measure(file, recorded, run, runtime, program,
                                    kind.least if tolerance is None else tolerance, memory, feed)
    limit = beginnings.rounding(file, measurement, kind) if tolerance is None else tolerance
    return _Part(measurement, limit, kind.name if tolerance is None else "as given",
                 beginnings.find(file, measurement, limit))


def _report(file: File, parts: list[_Part], recorded: Values, runtime: Runtime,
            program: RecordedProgram | None) -> AccuracyReport:
    """The report of the run that differs most."""
    part = max(parts, key=lambda part: (bool(part.begun), _furthest(part.measurement)))
    ordered = tuple(_first(file, part.measurement, each, program) for each in part.begun)
    lasting = [told for told, each in zip(ordered, part.begun) if each.lasts]
    return AccuracyReport(Path(file.path), runtime.settings, part.limit, part.limit_of,
                          _modules(file, part.measurement, part.limit), lasting[0] if lasting else None, ordered,
                          tuple(_notes(file, part, len(recorded.runs), not runtime.rounds)))


def _limit(text: str) -> tuple[float, str]:
    number, _, glob = text.partition("@")
    try:
        limit = float(number)
    except ValueError:
        limit = -1.0
    if not limit >= 0 or not math.isfinite(limit):
        raise error("E0101", "usage", f"'{text}' is not a limit of an error", "give a number, or 1e-3@encoder.*")
    return limit, glob or "**"


def _runtime(file: File, name: str, provider: str, optimised: bool) -> Runtime:
    if name == "onnxruntime":
        return runtimes.onnxruntime(file, provider, optimised)
    if name == "openvino":
        return runtimes.openvino(file)
    if name == "reference":
        return runtimes.reference(file)
    raise error("E0101", "usage", f"there is no runtime '{name}'", "one of onnxruntime, openvino, reference")


def _furthest(measurement: Measurement) -> float:
    return max((each.figures.relative for each in measurement.points if each.figures), default=0.0)


def _modules(file: File, measurement: Measurement, limit: float) -> tuple[ModuleAccuracy, ...]:
    by_key = {each.point.recorded.key: each for each in measurement.points}
    received = beginnings.inherited(file, measurement)
    rows = []
    for at, call in enumerate(measurement.calls.run.calls):
        results = [by_key[each.key] for each in call.results if each.key in by_key]
        if not results:
            continue  # it returned what the model was given, or nothing
        seen = [each for each in results if each.value is not None]
        if not seen:
            rows.append(ModuleAccuracy(call.module, call.call, call.type, "not observable",
                                       note=_why_not(file, measurement, at, results)))
            continue
        worst = max(seen, key=lambda each: each.figures.relative)
        figures = worst.figures
        rows.append(ModuleAccuracy(
            call.module, call.call, call.type, "differs" if worst.differs(limit) else "equal", worst.value,
            figures.relative, figures.largest, figures.sqnr, figures.cosine, figures.unequal, figures.estimated,
            received.get(worst.value, 0.0), figures.not_finite, figures.layout))
    return tuple(rows)


def _why_not(file: File, measurement: Measurement, call: int, results: list[Measured]) -> str:
    nodes = [each.point.within for each in results if each.point.within is not None]
    nodes = nodes or [node for node in file.nodes if measurement.calls.touches(node, call)]
    seen = beginnings.first_seen(file, measurement, nodes)
    where = f", first seen at {measurement.calls.run.calls[seen.point.maker].name}" \
        if seen is not None and seen.point.maker is not None else ""
    if not nodes:
        return "not observable: no node of the file is of it"
    return f"not observable: {results[0].reason}{where}"


def _first(file: File, measurement: Measurement, each: Beginning, program: RecordedProgram | None) -> FirstDifference:
    calls = measurement.calls.run.calls
    around = calls[each.around] if each.around is not None else None
    at = each.around if around is not None else each.measured.point.maker
    module, call = (calls[at].module, calls[at].call) if at is not None else ("", 0)
    operation, source = _operation(each.nodes, program)
    figures = each.measured.figures
    return FirstDifference(module, call, tuple(dict.fromkeys(calls[number].module for number in each.calls)), operation,
                           source, each.measured.value, tuple(node.title for node in each.nodes), figures.relative,
                           figures.largest, figures.estimated)


def _operation(nodes: list[Node], program: RecordedProgram | None) -> tuple[str, str]:
    """The one recorded operation among nodes that compute; the source line of the last node otherwise."""
    computing = [node for node in nodes if node.op_type not in _REARRANGING]
    operations = {number for node in computing for number in node.operations}
    source = next((node.source for node in reversed(computing or nodes) if node.source), "")
    if program is None or len(operations) != 1 or (number := operations.pop()) >= len(program.targets):
        return "", source
    return program.targets[number], source


_REARRANGING = {"Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Cast", "Shape", "Expand",
                "Slice", "Gather", "Concat", "Split", "Constant", "ConstantOfShape"}


def _findings(modules: tuple[ModuleAccuracy, ...], limits: list[tuple[float, str]]) -> Iterator[dict]:
    """The limit that was given last counts, of those whose glob matches."""
    matchers = [(limit, matcher([glob])) for limit, glob in limits]
    for each in modules:
        limit = next((limit for limit, matches in reversed(matchers) if matches(each.module)), None)
        if limit is not None and each.status != "not observable" and not each.relative <= limit:
            yield {"module": each.module, "call": each.call, "value": each.value, "limit": limit,
                   "relative": each.relative if math.isfinite(each.relative) else None,
                   "message": f"{each.name} is off by {each.relative:.3g}, the limit is {limit:g}"}


def _notes(file: File, part: _Part, runs: int, dumped: bool) -> Iterator[str]:
    for name, dtype in part.measurement.casts.items():
        yield f"the input '{name}' was converted to {dtype}, which the file takes"
    random = sorted({node.op_type for node in file.nodes if node.op_type in RANDOM})
    if random:
        yield f"the file draws random numbers ({', '.join(random)}): what is computed from them differs in any case"
    if part.measurement.rounds > 1:
        yield f"values were taken in {part.measurement.rounds} rounds"
    if runs > 1:
        yield (f"of {runs} recorded runs the first was compared" if dumped else
               f"of {runs} recorded runs the one that differs most is shown")
