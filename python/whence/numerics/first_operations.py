"""Finds the operation at which a difference begins, from recorded results of operations between observed values.

The sidecar numbers the model's operations, and each node of the file states which of them it implements. The values
file lists the operators of each call in execution order. The two lists are matched call by call.
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
    """Returns the first beginning among the results of operations that compute ``first``; None if no such result was
    recorded or differs."""
    measurement, file = flow.measurement, flow.file
    points = list(_points(flow, first, program))
    if not points:
        return None
    measured, _ = measurements.observed(file, values, measurement.calls, points, runtime, measurement.feed,
                                        limits.general, memory)
    detailed = Flow(file, replace(measurement, points=measurements.in_order(file, [*measurement.points, *measured])))
    relevant = {first.measured.value, *(each.value for each in measured)}
    beginnings = [each for each in first_differences.find(detailed, limits) if each.measured.value in relevant]
    return next(iter([each for each in beginnings if each.lasts] or beginnings), None)


def _points(flow: Flow, first: Beginning, program: RecordedProgram) -> Iterator[Point]:
    """Yields points for the recorded results of the nodes' operations."""
    calls = flow.measurement.calls
    recorded = recorded_by_number(program, calls.run)
    nodes = nodes_by_operation(flow.file)
    for number in dict.fromkeys(number for node in first.nodes for number in node.operations if number in recorded):
        call = calls.index_of(*program.calls[number])
        for output, result in enumerate(recorded[number].results):
            operation_values = [name for name in values_of(flow.file, nodes[number], number, output)
                                if name not in flow.observed and name not in flow.file.constants]
            if operation_values and call is not None:
                yield Point(result, [call], operation_values=operation_values)


def recorded_by_number(program: RecordedProgram, run: Run) -> dict[int, Operation]:
    """Returns the recorded operations by their numbers in the sidecar. Skips operators that occur in a call a different
    number of times in the sidecar and in the values. Ranks of results distinguish operators, too: operations on sizes
    are traced, with scalar results, but compute Python numbers when the model runs."""
    groups: dict[tuple[Any, ...], tuple[list[int], list[Operation]]] = {}
    for number, key in enumerate(zip(program.calls, map(_as_traced, program.targets), program.ranks, strict=True)):
        groups.setdefault(key, ([], []))[0].append(number)
    for call in run.calls:
        for operation in call.operations or ():
            key = ((call.module, call.call), _as_traced(operation.operator),
                   tuple(len(result.dims) for result in operation.results))
            if key in groups:
                groups[key][1].append(operation)
    return {number: operation for numbers, operations in groups.values() if len(numbers) == len(operations)
            for number, operation in zip(numbers, operations)}


def _as_traced(operator: str) -> str:
    """Returns the operator's name in a PyTorch trace, which has one operator for all convolutions."""
    return re.sub(r"^aten::conv(_transpose)?\dd$", "aten::_convolution", operator)
