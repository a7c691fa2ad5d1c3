"""Finds the operation at which a difference begins, by what the operations between the observed values returned.

The sidecar numbers the operations of the model, and the file's nodes say which of them they stand for. Recorded values have
operators in the order in which they ran; the two lists are those of one call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ..values.value_file import Operation, Run, Values
from . import first_differences, measurements
from .candidates import Point, nodes_by_operation, values_of
from .first_differences import Beginning, Limits
from .recorded_program import RecordedProgram
from .runtimes import Runtime
from .value_flow import Flow


def beginning_in(flow: Flow, first: Beginning, limits: Limits, values: Values, program: RecordedProgram, runtime: Runtime,
                 memory: int) -> Beginning | None:
    """The beginning among the results of operations that ``first`` is computed by; None where none was recorded, or none
    differs."""
    measurement, file = flow.measurement, flow.file
    points = list(_points(flow, first, program))
    if not points:
        return None
    measured, _ = measurements.observed(file, values, measurement.calls, points, runtime, measurement.feed, limits.whole, memory)
    finer = Flow(file, replace(measurement, points=measurements.in_order(file, [*measurement.points, *measured])))
    within = {first.measured.value, *(each.value for each in measured)}
    begun = [each for each in first_differences.find(finer, limits) if each.measured.value in within]
    return next(iter([each for each in begun if each.lasts] or begun), None)


def _points(flow: Flow, first: Beginning, program: RecordedProgram) -> Iterator[Point]:
    """Recorded results of the operations of the nodes, with the values of the file that are them."""
    calls = flow.measurement.calls
    recorded = recorded_by_number(program, calls.run)
    nodes = nodes_by_operation(flow.file)
    for number in dict.fromkeys(number for node in first.nodes for number in node.operations if number in recorded):
        call = calls.number(*program.calls[number])
        for output, result in enumerate(recorded[number].results):
            stated = [name for name in values_of(flow.file, nodes[number], number, output) if name not in flow.observed]
            if stated and call is not None:
                yield Point(result, [call], stated=stated)


def recorded_by_number(program: RecordedProgram, run: Run) -> dict[int, Operation]:
    """Recorded operations by their numbers in the sidecar, where a call has as many of an operator there as in the values.
    A trace has operations on sizes, which are numbers of Python when the model runs: they have no axes."""
    groups: dict[tuple[Any, ...], tuple[list[int], list[Operation]]] = {}
    for number, key in enumerate(zip(program.calls, map(_as_traced, program.targets), program.ranks, strict=True)):
        groups.setdefault(key, ([], []))[0].append(number)
    for call in run.calls:
        for each in call.operations or ():
            key = (call.module, call.call), _as_traced(each.operator), tuple(len(result.dims) for result in each.results)
            if key in groups:
                groups[key][1].append(each)
    return {number: each for numbers, found in groups.values() if len(numbers) == len(found)
            for number, each in zip(numbers, found)}


def _as_traced(operator: str) -> str:
    """A trace of Python has one operator for all convolutions."""
    return re.sub(r"^aten::conv(_transpose)?\dd$", "aten::_convolution", operator)
