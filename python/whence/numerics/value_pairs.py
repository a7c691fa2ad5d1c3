"""Pairs values of a file with results of recorded operations by their numbers only. Names, bytes and structure of the
file may differ.

Constant and small results are left out, and so are results shared by several operations, unless these only rearrange
one result. A value is paired with a result if it is near it and clearly nearer than to all other results."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..errors import error
from ..values import sketch
from ..values.value_file import Recorded, Run, Values
from . import annotated_file, api, candidates, first_operations, measurements, recorded_program, tensor_differences
from .annotated_file import File
from .file_inputs import Overrides
from .measurements import MEMORY
from .recorded_program import RecordedProgram
from .runtimes import Runtime

_MIN_ELEMENTS = 16     # numbers of smaller tensors may be equal by chance
_ALIKE_LIMIT = 1e-4    # maximum relative difference of the moments of rearranged results
_MAX_COMPARED = 4      # maximum number of nearest results to compare in all orders of axes
_MIN_RATIO = 4         # minimum ratio of the second nearest distance to the nearest
_MIN_MARGIN = 1e-3     # minimum difference of these two distances


@dataclass(frozen=True)
class Pair:
    value: str        # name in the file
    operation: int    # index in the sidecar
    output: int       # index in the operation's results
    relative: float   # norm of the difference divided by the norm of the recorded result


@dataclass(frozen=True)
class _Result:
    operation: int
    output: int
    recorded: Recorded
    moments: torch.Tensor  # float64[5]: sum, sum of magnitudes, norm, minimum, maximum
    samples: torch.Tensor  # float64, at the indices of ``tensor_differences.samples_of``

    @property
    def length(self) -> float:
        return float(self.moments[2])


def find(file: File, values: Values, run: Run, runtime: Runtime, program: RecordedProgram,
         memory: int = MEMORY, overrides: Overrides = Overrides()) -> list[Pair]:
    """Runs the file on the recorded inputs and returns the pairs. Raises WhenceError like ``whence.accuracy``."""
    results_by_count = _by_count(_distinctive(values, _results(run, program), program))
    feed = measurements.feed_of(file, values, run, overrides).tensors if runtime.rounds else {}
    limit = measurements.number_format_of(file).max_limit / 2
    pairs: list[Pair] = []
    for name, tensor in _observed(file, runtime, feed, results_by_count, memory):
        nearest = _nearest(values, results_by_count[tensor.numel()], tensor, limit)
        if nearest is not None:
            pairs.append(Pair(name, *nearest))
    return _without_distant(pairs)


def _results(run: Run, program: RecordedProgram) -> dict[str, tuple[int, int, Recorded]]:
    """Returns results of recorded operations by tensor key; the first if several operations return a tensor."""
    results: dict[str, tuple[int, int, Recorded]] = {}
    operation_results = [(number, output, recorded)
                         for number, operation in first_operations.recorded_by_number(program, run).items()
                         for output, recorded in enumerate(operation.results)]
    for call in run.calls:
        for recorded in call.results:
            result = candidates.program_result(recorded, call, program.results.get((call.module, call.call), []))
            if result is not None:
                operation_results.append((result.operation, result.output, recorded))
    for entry in sorted(operation_results, key=lambda entry: entry[:2]):
        results.setdefault(entry[2].key, entry)
    return results


def _distinctive(values: Values, results: Mapping[str, tuple[int, int, Recorded]],
                 program: RecordedProgram) -> Iterator[_Result]:
    floating = [_result(values, *result) for result in results.values()
                if tensor_differences.is_number(result[2]) and result[2].count >= _MIN_ELEMENTS
                and "complex" not in result[2].dtype]
    varying = [result for result in floating if math.isfinite(result.length) and result.length > 0
               and (float(result.samples.max() - result.samples.min())
                    > _ALIKE_LIMIT * float(result.samples.abs().max()))]
    for group in _rearrangements(varying):
        first, *rearranged = sorted(group, key=lambda result: result.operation)
        operations = {result.operation for result in group}
        # An operation that reads another result of its group only rearranges it.
        if all(program.read[result.operation] & operations for result in rearranged):
            yield first


def _result(values: Values, operation: int, output: int, recorded: Recorded) -> _Result:
    samples = tensor_differences.samples_of(values, recorded)[1].double()
    moments = values.sketch(recorded).moments if recorded.form != "whole" \
        else sketch.moments(values.whole(recorded).reshape(-1))
    return _Result(operation, output, recorded, _moments(moments), samples)


def _moments(moments: torch.Tensor) -> torch.Tensor:
    minimum, maximum, total, magnitudes, squares = moments[4:9]
    if bool(moments[1:4].any()):  # not finite, so it is not compared
        squares = torch.tensor(math.inf, dtype=torch.float64)
    return torch.stack([total, magnitudes, squares.sqrt(), minimum, maximum])


def _rearrangements(results: Sequence[_Result]) -> Iterator[list[_Result]]:
    """Yields groups of results with equal elements in any order."""
    group: list[_Result] = []
    for result in sorted(results, key=lambda result: (result.recorded.count, result.length)):
        if group and not _same_elements(group[-1], result):
            yield group
            group = []
        group.append(result)
    if group:
        yield group


def _same_elements(a: _Result, b: _Result) -> bool:
    return a.recorded.count == b.recorded.count and \
        bool((a.moments[1:] - b.moments[1:]).abs().le(_ALIKE_LIMIT * a.moments[1:].abs()).all())


def _by_count(results: Iterable[_Result]) -> dict[int, list[_Result]]:
    groups: dict[int, list[_Result]] = {}
    for result in results:
        groups.setdefault(result.recorded.count, []).append(result)
    return groups


def _observed(file: File, runtime: Runtime, feed: Mapping[str, torch.Tensor], results_by_count: Mapping[int, Any],
              memory: int) -> Iterator[tuple[str, torch.Tensor]]:
    """Yields the file's values that have as many elements as some result, in rounds that fit into ``memory``."""
    excluded = file.constants | file.sizes | file.random
    # QuantizeLinear may replace an activation, so its input may belong to the operation before the activation.
    excluded |= {name for node in file.nodes if node.op_type == "QuantizeLinear" for name in node.inputs[:1]}
    names = [name for name in file.producer if name not in excluded]
    at_once = max(1, memory // (8 * max(results_by_count, default=1))) if runtime.rounds else len(names)
    for start in range(0, len(names), at_once):
        for name, tensor in runtime.take(feed, names[start:start + at_once]):
            if isinstance(tensor, torch.Tensor) and tensor.is_floating_point() and tensor.numel() in results_by_count:
                yield name, tensor


def _nearest(values: Values, results: Sequence[_Result], tensor: torch.Tensor,
             limit: float) -> tuple[int, int, float] | None:
    """Returns operation, output and relative difference of the nearest result; None if no result is clearly nearest."""
    moments = _moments(sketch.moments(tensor.reshape(-1)))
    if not math.isfinite(float(moments[2])):
        return None
    distances = _distances(results, tensor)
    in_order = bool(distances.min() <= limit)
    if not in_order:  # moments do not depend on the order of axes
        lengths = torch.stack([each.moments[2] for each in results])
        distances = (torch.stack([each.moments for each in results]) - moments)[:, 1:].abs().amax(1) / lengths
    near = [int(at) for at in distances.argsort()[:_MAX_COMPARED] if distances[at] <= limit]
    compared = sorted((found.nearest, at) for at in near if (found := tensor_differences.compare(
        values, results[at].recorded, tensor, in_own_order=in_order)) is not None)
    if not compared or not compared[0][0] <= limit:
        return None
    relative, at = compared[0]
    if len(compared) > 1 and compared[1][0] < max(_MIN_RATIO * relative, relative + _MIN_MARGIN):
        return None
    return results[at].operation, results[at].output, relative


def _distances(results: Sequence[_Result], tensor: torch.Tensor) -> torch.Tensor:
    """Returns the relative differences of the sampled elements, in the tensor's order of axes."""
    flat = tensor.reshape(-1)
    sampled = flat[sketch.sample_positions(flat.numel())] if results[0].samples.numel() != flat.numel() else flat
    rows = torch.stack([each.samples for each in results])
    return (rows - sampled.double()).norm(dim=1) / rows.norm(dim=1).clamp(min=1e-30)


def _without_distant(pairs: Sequence[Pair]) -> list[Pair]:
    """Drops pairs whose value is clearly farther from the result than the nearest value in the file."""
    nearest: dict[tuple[int, int], float] = {}
    for pair in pairs:
        key = pair.operation, pair.output
        nearest[key] = min(pair.relative, nearest.get(key, math.inf))
    return [pair for pair in pairs
            if pair.relative <= max(2 * nearest[pair.operation, pair.output], _ALIKE_LIMIT)]


def write(path: Path, model: str | os.PathLike[str], values: Values | str | os.PathLike[str], sidecar: str | os.PathLike[str],
          outputs: str | os.PathLike[str] | None = None, overrides: Overrides = Overrides()) -> list[Pair]:
    """Finds the pairs and writes them for ``whence annotate --value-pairs``. Raises WhenceError like ``find``, E0204
    without a run, and E0206 without a pair: the values belong to another model or to other inputs."""
    recorded = api.recorded_of(values)
    program = recorded_program.read(sidecar)
    file = annotated_file.read(model, annotated=False)
    file_runtime = api.runtime_of(file, outputs=outputs, overrides=overrides)
    pairs = find(file, recorded, recorded.runs[0], file_runtime, program, overrides=overrides)
    if not pairs:
        raise error("E0206", "sidecar_mismatch", f"no value of {file.path} is near a result in {recorded.place} of the "
                    "sidecar's operations", "pass the values and the sidecar of this model, or annotate without values",
                    file=file.path)
    path.write_text(json.dumps({
        "format": "whence-value-pairs", "version": 1, "program": program.digest,
        "pairs": [{"value": each.value, "operation": each.operation, "output": each.output} for each in pairs]}),
        encoding="utf-8")
    return pairs
