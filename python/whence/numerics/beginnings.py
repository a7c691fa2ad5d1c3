"""Finds where differences begin: values that differ while everything they are computed from agrees, or nearly does."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from .measuring import Kind, Measured, Measurement
from .origins import File, Node

_CONVERTING = {"Cast", "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"}

# A value begins to differ where it is so many times further off than what it is computed from. Less is rounding that
# adds up, or what came before: behind a difference, values may be off by several times as much.
_STEP, _STEP_BEHIND = 3.0, 10.0
_USUAL, _ENOUGH = 10.0, 12  # usual steps that make a difference, and how many it takes to know the usual one


@dataclass
class Beginning:
    """A value that differs, and the nodes between it and the observed values that it is computed from, without those
    that values which agree are computed by, too."""

    measured: Measured
    nodes: list[Node]           # in the file's order
    reads: list[Measured]       # the observed values that the nodes read
    calls: list[int]            # the calls that the nodes belong to
    around: int | None          # the innermost call that holds all of those
    lasts: bool                 # the difference reaches an output of the file, or everything seen behind it


def find(file: File, measurement: Measurement, tolerance: float) -> list[Beginning]:
    """In the order of data. Forgets values that cannot be the point, see ``_forget_impossible``."""
    _forget_impossible(file, measurement, tolerance)
    observed = _observed(measurement)
    regions = {value: region(file, value, observed) for value in observed}
    # A node that an agreeing value is computed by computes what it should: a Reshape that a tool shares among readers.
    cleared = {node.at for value, each in observed.items() if not each.differs(tolerance) for node in regions[value][0]}
    found = []
    for each in measurement.points:
        if each.value is None or not each.differs(tolerance) or observed[each.value] is not each:
            continue
        nodes, reads = regions[each.value]
        nodes = [node for node in nodes if node.at not in cleared] or nodes
        before = max((other.figures.relative for other in reads), default=0.0)
        if each.figures.relative <= before * (_STEP if before <= tolerance else _STEP_BEHIND):
            continue
        calls = _calls_of(measurement, nodes)
        found.append(Beginning(each, nodes, reads, calls, _around(measurement, calls),
                               _lasts(file, each, observed, tolerance)))
    return found


def inherited(file: File, measurement: Measurement) -> dict[str, float]:
    """By value of the file, the largest relative difference among the observed values that it is computed from."""
    observed = _observed(measurement)
    return {name: max((each.figures.relative for each in region(file, name, observed)[1]), default=0.0)
            for name in observed}


def rounding(file: File, measurement: Measurement, kind: Kind) -> float:
    """The relative difference from which on a value differs: ten times what is usual for one step from observed values
    to the next in this file, within the bounds of what it computes in."""
    before = inherited(file, measurement)
    steps = []
    for name, each in _observed(measurement).items():
        after = each.figures.relative
        if math.isfinite(after) and after > 0 and math.isfinite(before[name]):
            steps.append(math.sqrt(max(after**2 - before[name]**2, 0.0)))
    if len(steps) < _ENOUGH:
        return math.sqrt(kind.least * kind.most)
    steps.sort()
    # Many steps behind a difference are large, so the usual one is sought among the smaller half.
    return min(max(_USUAL * steps[len(steps) // 3], kind.least), kind.most)


def _observed(measurement: Measurement) -> dict[str, Measured]:
    observed: dict[str, Measured] = {}
    for each in measurement.points:
        if each.value is not None:
            observed.setdefault(each.value, each)
    return observed


def region(file: File, value: str, observed: dict[str, Measured]) -> tuple[list[Node], list[Measured]]:
    """The nodes that compute ``value`` from observed ones, and those."""
    nodes: dict[int, Node] = {}
    reads: dict[str, Measured] = {}
    todo = [value]
    while todo:
        node = file.maker.get(todo.pop())
        if node is None or node.at in nodes:
            continue
        nodes[node.at] = node
        for name in node.inputs:
            if name in observed and name != value:
                reads[name] = observed[name]  # also a constant
        todo += (name for name in file.depends_on(node) if name not in observed or name == value)
    return [nodes[at] for at in sorted(nodes)], list(reads.values())


def _calls_of(measurement: Measurement, nodes: Iterable[Node]) -> list[int]:
    """Without those of nodes that are known by a module around them alone, and of those that quantise for several
    readers, where there are others."""
    nodes = [node for node in nodes if node.op_type not in _CONVERTING] or list(nodes)
    known = [node for node in nodes if node.confidence not in ("ancestor", "unattributed")] or nodes
    return list(dict.fromkeys(at for node in known for at in measurement.calls.of_node[node.at]))


def _around(measurement: Measurement, calls: list[int]) -> int | None:
    if not calls:
        return None
    common = frozenset.intersection(*(measurement.calls.around[at] for at in calls))
    return max(common, key=lambda at: len(measurement.calls.around[at]), default=None)


def _behind(file: File, value: str, observed: dict[str, Measured]) -> tuple[list[Measured], bool]:
    """The next observed values that are computed from this one, and whether an output of the file is, too."""
    seen: set[int] = set()
    found: dict[str, Measured] = {}
    reaches = value in file.outputs
    todo = [value]
    while todo:
        for node in file.readers.get(todo.pop(), ()):
            if node.at in seen:
                continue
            seen.add(node.at)
            for name in node.outputs:
                if name in observed and name != value:
                    found[name] = observed[name]
                elif name not in file.sizes:
                    reaches = reaches or name in file.outputs
                    todo.append(name)
    return list(found.values()), reaches


def _lasts(file: File, measured: Measured, observed: dict[str, Measured], tolerance: float) -> bool:
    """A mask of -inf in place of the least number differs, and nothing behind it does. A difference may also be diluted:
    then what is behind it is further off than everything else that it is computed from."""
    behind, reaches = _behind(file, measured.value, observed)

    def is_diluted(other: Measured) -> bool:
        reads = region(file, other.value, observed)[1]
        before = max((each.figures.relative for each in reads if each is not measured), default=0.0)
        return other.figures.relative > max(tolerance / _STEP, _STEP * before)

    return reaches or not behind or any(each.differs(tolerance) or is_diluted(each) for each in behind)


def _forget_impossible(file: File, measurement: Measurement, tolerance: float) -> None:
    """A value that was taken for a point because nothing else could be it, that differs, and behind which everything
    agrees, is not the point."""
    observed = _observed(measurement)
    for each in measurement.points:
        if each.value is None or each.certain or not each.differs(tolerance):
            continue
        behind, reaches = _behind(file, each.value, observed)
        if behind and not reaches and not any(other.differs(tolerance) for other in behind):
            each.value, each.figures = None, None
            each.reason = "which value of the file it is, is not known"


def first_seen(file: File, measurement: Measurement, nodes: list[Node]) -> Measured | None:
    """The first observed value that is computed from results of these nodes."""
    observed = _observed(measurement)
    behind = [each for node in nodes for name in node.outputs if name
              for each in ([observed[name]] if name in observed else _behind(file, name, observed)[0])]
    return min(behind, key=lambda each: file.place(each.value), default=None)
