"""Finds the sizes at which a condition in Python changes its result: a trace contains only one branch of each
condition.

When the tracer warns that Python converted a tensor to a bool, the comparison is the last operation of the trace. It
compares a number computed from sizes with a constant, so the sizes for the other branch can be computed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

_COMPARED = frozenset({"aten::gt", "aten::lt", "aten::ge", "aten::le", "aten::eq", "aten::ne"})
_UNCHANGED = frozenset({"prim::NumToTensor", "aten::Int", "aten::ScalarImplicit", "aten::to", "aten::detach"})
_COMPUTED = {"aten::add": lambda a, b, *_: a + b, "aten::sub": lambda a, b, *_: a - b, "aten::rsub": lambda a, b, *_: b - a,
             "aten::mul": lambda a, b, *_: a * b, "aten::div": lambda a, b, *_: a / b if b else math.nan,
             "aten::floor_divide": lambda a, b, *_: a // b if b else math.nan,
             "aten::remainder": lambda a, b, *_: a % b if b else math.nan}
_MAX_DEPTH = 12


@dataclass(frozen=True)
class TurningPoint:
    """A condition on a number: the number is ``value`` on the example and depends on the example's ``sizes``; the
    condition changes when it reaches ``target``."""

    value: float
    target: float
    sizes: frozenset[int]

    def sizes_of_axis(self, size: int) -> Iterator[int]:
        """Yields sizes near the turning point for an axis of length ``size`` in the example: scaled in proportion, and
        shifted by the difference, which is right for padding."""
        if self.value <= 0 or self.target < 0:
            return
        for near in {math.floor(size * self.target / self.value), math.floor(size + self.target - self.value)}:
            yield from (each for each in range(near - 1, near + 3) if each > 0)


@dataclass(frozen=True)
class SizeUse:
    """A line of Python that used a size as a number, and its turning points if it is a condition."""

    file: str
    line: int
    turns: tuple[TurningPoint, ...] = ()


@dataclass(frozen=True)
class _Number:
    value: float
    sizes: frozenset[int] = frozenset()
    steps: tuple[tuple[float, float], ...] = ()  # (number, divisor) of each remainder


def of_last_condition() -> list[TurningPoint]:
    """Returns the turning points of the last operation of the current trace; an empty list if it is not a
    comparison."""
    state = torch._C._get_tracing_state()
    last = None if state is None else state.graph().return_node().prev()
    if last is None or last.kind() not in _COMPARED:
        return []
    sides = [_number(each, _MAX_DEPTH) for each in last.inputs()]
    if len(sides) != 2 or None in sides:
        return []
    points = []
    for side, other in (sides, sides[::-1]):
        if side.sizes and not other.sizes and not side.steps:
            points.append(TurningPoint(side.value, other.value, side.sizes))
        points += [TurningPoint(number, math.ceil(number / by) * by, side.sizes) for number, by in side.steps if by > 0]
    return points


def _number(value: torch._C.Value, depth: int) -> _Number | None:
    """Returns a number that depends only on sizes and constants; None for any other value."""
    node, constant = value.node(), value.toIValue()
    if constant is not None or node.kind() == "prim::Constant":
        return _constant(constant)
    inputs = list(node.inputs())
    if node.kind() == "aten::size" and len(inputs) == 2:
        sizes, axis = inputs[0].type().sizes(), inputs[1].toIValue()
        return _Number(sizes[axis], frozenset({sizes[axis]})) if sizes and axis is not None else None
    if depth == 0 or not inputs:
        return None
    if node.kind() in _UNCHANGED:
        return _number(inputs[0], depth - 1)
    if node.kind() not in _COMPUTED or len(inputs) < 2:
        return None
    a, b = _number(inputs[0], depth - 1), _number(inputs[1], depth - 1)
    if a is None or b is None:
        return None
    result = _COMPUTED[node.kind()](a.value, b.value)
    steps = a.steps + b.steps + (((a.value, b.value),) if node.kind() == "aten::remainder" and a.sizes else ())
    return None if math.isnan(result) else _Number(result, a.sizes | b.sizes, steps)


def _constant(value: Any) -> _Number | None:
    if isinstance(value, torch.Tensor):
        value = value.item() if value.numel() == 1 else None
    return _Number(value) if isinstance(value, (int, float)) else None


def sizes_of_axes(points: Sequence[TurningPoint], axes: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """Yields (axis, size) for each axis that a condition may depend on, judged by the example's sizes."""
    for name, size in axes.items():
        relevant = [each for each in points if size in each.sizes or not each.sizes.intersection(axes.values())]
        yield from ((name, other) for other in dict.fromkeys(
            other for point in relevant for other in point.sizes_of_axis(size)) if other != size)
