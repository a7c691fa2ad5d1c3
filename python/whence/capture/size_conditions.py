"""The sizes at which conditions turn that Python decides while a model is traced: the trace holds one side of each.

The tracer has recorded the comparison when it warns of the bool that Python makes of it. What is compared is a number
that follows from sizes, and a constant; so the sizes are known at which the other side is taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

_COMPARED = frozenset({"aten::gt", "aten::lt", "aten::ge", "aten::le", "aten::eq", "aten::ne"})
_PASSED_ON = frozenset({"prim::NumToTensor", "aten::Int", "aten::ScalarImplicit", "aten::to", "aten::detach"})
_COMPUTED = {"aten::add": lambda a, b, *_: a + b, "aten::sub": lambda a, b, *_: a - b, "aten::rsub": lambda a, b, *_: b - a,
             "aten::mul": lambda a, b, *_: a * b, "aten::div": lambda a, b, *_: a / b if b else math.nan,
             "aten::floor_divide": lambda a, b, *_: a // b if b else math.nan,
             "aten::remainder": lambda a, b, *_: a % b if b else math.nan}
_DEEPEST = 12


@dataclass(frozen=True)
class TurningPoint:
    """A condition turns where the number that is ``value`` with the example is ``target``. ``sizes``: the example's, from
    which the number follows."""

    value: float
    target: float
    sizes: frozenset[int]

    def sizes_of_axis(self, size: int) -> Iterator[int]:
        """Sizes around the turning point of an axis that is ``size`` long in the example: about in proportion, and as far
        away, for a padded or shortened one."""
        if self.value <= 0 or self.target < 0:
            return
        for near in {math.floor(size * self.target / self.value), math.floor(size + self.target - self.value)}:
            yield from (each for each in range(near - 1, near + 3) if each > 0)


@dataclass(frozen=True)
class SizeUse:
    """A line of Python that used a size as a number, and where it turns, if it is a condition."""

    file: str
    line: int
    turns: tuple[TurningPoint, ...] = ()


@dataclass(frozen=True)
class _Number:
    value: float
    sizes: frozenset[int] = frozenset()
    steps: tuple[tuple[float, float], ...] = ()  # (number, divisor) of each remainder


def of_last_condition() -> list[TurningPoint]:
    """The points of the comparison that is the last operation of the trace that is being made; none if it is another."""
    state = torch._C._get_tracing_state()
    last = None if state is None else state.graph().return_node().prev()
    if last is None or last.kind() not in _COMPARED:
        return []
    sides = [_number(each, _DEEPEST) for each in last.inputs()]
    if len(sides) != 2 or None in sides:
        return []
    points = []
    for side, other in (sides, sides[::-1]):
        if side.sizes and not other.sizes and not side.steps:
            points.append(TurningPoint(side.value, other.value, side.sizes))
        points += [TurningPoint(number, math.ceil(number / by) * by, side.sizes) for number, by in side.steps if by > 0]
    return points


def _number(value: torch._C.Value, depth: int) -> _Number | None:
    """None where it does not follow from sizes and constants alone."""
    node, constant = value.node(), value.toIValue()
    if constant is not None or node.kind() == "prim::Constant":
        return _constant(constant)
    inputs = list(node.inputs())
    if node.kind() == "aten::size" and len(inputs) == 2:
        sizes, axis = inputs[0].type().sizes(), inputs[1].toIValue()
        return _Number(sizes[axis], frozenset({sizes[axis]})) if sizes and axis is not None else None
    if depth == 0 or not inputs:
        return None
    if node.kind() in _PASSED_ON:
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
    """(axis, size) for each axis that a condition may be about, by the sizes of the example."""
    for name, size in axes.items():
        concern = [each for each in points if size in each.sizes or not each.sizes.intersection(axes.values())]
        yield from ((name, other) for other in dict.fromkeys(
            other for point in concern for other in point.sizes_of_axis(size)) if other != size)
