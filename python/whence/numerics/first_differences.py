"""Finds where differences begin: values that differ while everything they are computed from agrees, or nearly does."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from .annotated_file import Node
from .measurements import Kind, Measured, Measurement
from .modules_alone import Made
from .value_flow import Flow

REARRANGING = {"Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Cast", "Shape", "Expand",
               "Slice", "Gather", "Concat", "Split", "Constant", "ConstantOfShape"}
_CONVERTING = {"Cast", "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"}

# A value begins to differ where it is so many times further off than what it is computed from. Less is rounding that
# adds up, or what came before: behind a difference, values may be off by several times as much.
_STEP, _STEP_BEHIND = 3.0, 10.0
_EQUAL = 1e-6  # relative difference below which scores are taken to have the same order
_CHANGED = 10.0  # share of indices that may change, by how far the scores are off
_USUAL, _ENOUGH = 10.0, 12  # usual steps that make a difference, and how many it takes to know the usual one


@dataclass(frozen=True)
class Limits:
    """The relative difference from which on a value differs."""

    whole: float  # anywhere in the file
    exact: float  # behind nodes that quantise nothing, where it is also far above everything before

    def above(self, flow: Flow, each: Measured) -> bool:
        if each.counts:  # one index that changed is a difference, unless scores that are off a little changed it
            before = flow.before(each.value)
            return each.differs(max(self.whole, _CHANGED * before) if before > _EQUAL else 0.0)
        if each.differs(self.whole):
            return True
        # A Softmax of masked scores amplifies what seems little beside the mask: all that came before counts.
        return not flow.is_quantised(each.value) and each.differs(
            max(self.exact, _STEP_BEHIND * flow.ever_before(each.value)))


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
    weighs: bool                # its figures are numbers that the module's weights have a part in: not another mask


def limits(flow: Flow, kind: Kind) -> Limits:
    """Ten times what is usual for one step from observed values to the next in this file, within the bounds of what it
    computes in."""
    steps = []
    for name, each in flow.observed.items():
        before, after = flow.before(name), each.figures.relative
        if math.isfinite(after) and after > 0 and math.isfinite(before):
            steps.append(math.sqrt(max(after**2 - before**2, 0.0)))
    if len(steps) < _ENOUGH:
        return Limits(math.sqrt(kind.least * kind.most), kind.exact)
    steps.sort()
    # Many steps behind a difference are large, so the usual one is sought among the smaller half.
    return Limits(min(max(_USUAL * steps[len(steps) // 3], kind.least), kind.most), kind.exact)


def find(flow: Flow, limits: Limits) -> list[Beginning]:
    """In the order of data."""
    differing = {value for value, each in flow.observed.items() if limits.above(flow, each)}
    # A node that an agreeing value is computed by computes what it should: a Reshape that a tool shares among readers.
    # An equal index clears no scores.
    cleared = {node.at for value, each in flow.observed.items() if value not in differing and not each.counts
               for node in flow.region(value)[0]}
    found = []
    for value, each in flow.observed.items():
        if value not in differing:
            continue
        nodes, reads = flow.region(value)
        nodes = [node for node in nodes if node.at not in cleared] or nodes
        before = flow.before(value)
        if each.figures.relative <= before * (_STEP if before <= limits.whole else _STEP_BEHIND):
            continue
        calls = _calls_of(flow.measurement, nodes)
        found.append(Beginning(each, nodes, reads, calls, _around(flow.measurement, calls), _lasts(flow, each, limits),
                               _weighs(flow, each, nodes, calls)))
    return found


def corrected(flow: Flow, limits: Limits, begun: list[Beginning], made: Made) -> list[Beginning]:
    """With what modules make alone: a difference that a module only hands on does not begin there, and one that is lost
    in what is handed on does. In the order of data."""
    calls = flow.measurement.calls
    faulty: dict[int, Beginning] = {}
    known: set[int] = set()
    for at, call in enumerate(calls.run.calls):
        if (call.module, call.call) not in made.relative:
            continue
        known.add(at)
        own = made.relative[call.module, call.call]
        begun_there = _of_call(flow, limits, at)
        nodes = [node for node in flow.file.nodes if calls.touches(node, at)]
        is_quantised = flow.quantise(nodes) or flow.is_quantised(begun_there.measured.value)
        # The rounding of modules within adds up in the one around them.
        within = max((made.relative.get((other.module, other.call), 0.0) for inner, other in enumerate(calls.run.calls)
                      if inner != at and at in calls.around[inner]), default=0.0)
        limit = max(limits.whole, _STEP * within) if is_quantised else limits.exact
        if own > limit and not any(at in calls.around[inner] for inner in faulty):
            faulty[at] = begun_there
    left = [each for each in begun if each.around not in known or each.around in faulty]
    named = {each.around for each in left}
    found = left + [each for at, each in faulty.items() if at not in named]
    return sorted(found, key=lambda each: flow.file.place(each.measured.value))


def _of_call(flow: Flow, limits: Limits, at: int) -> Beginning:
    """The result of a call that is furthest off, as a beginning."""
    keys = {each.key for each in flow.measurement.calls.run.calls[at].results}
    results = [each for each in flow.observed.values() if each.point.recorded.key in keys]
    worst = max(results, key=lambda each: each.figures.relative)
    nodes, reads = flow.region(worst.value)
    own = [node for node in nodes if flow.measurement.calls.within(node, at)]
    return Beginning(worst, own or nodes, reads, [at], at, _lasts(flow, worst, limits), True)


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


def _lasts(flow: Flow, measured: Measured, limits: Limits) -> bool:
    """A mask of -inf in place of the least number differs, and nothing behind it does. A difference may also be diluted:
    then what is behind it is further off than everything else that it is computed from."""
    behind, reaches = flow.behind(measured.value)
    limit = limits.whole if measured.differs(limits.whole) else limits.exact

    def is_diluted(other: Measured) -> bool:
        reads = flow.region(other.value)[1]
        before = max((each.figures.relative for each in reads if each is not measured), default=0.0)
        return other.figures.relative > max(limit / _STEP, _STEP * before)

    return reaches or not behind or any(each.differs(limit) or is_diluted(each) for each in behind)


def _weighs(flow: Flow, each: Measured, nodes: Iterable[Node], calls: list[int]) -> bool:
    """True for a value in which the module's weights have a part, and no others: with those of another module a tool has
    made it another value, by a scale multiplied into them. A node that tools fused of several modules is each one's."""
    weighing = [node for node in nodes if flow.has_weights([node])]
    if not each.certain or not weighing or not math.isfinite(each.figures.relative):
        return False
    maker, known = each.point.maker, flow.measurement.calls
    return len(calls) == 1 or maker is not None and all(known.touches(node, maker) for node in weighing)


def settle_layouts(flow: Flow, limits: Limits) -> None:
    """A value that equals the point in another order of axes of the same sizes is laid out otherwise where everything
    behind it agrees, or where channels are last that were first, and no rearranging node makes it. Otherwise
    its axes are in a wrong order."""
    for each in reversed(flow.measurement.points):
        if each.value is None or each.figures.turned is None:
            continue
        behind, reaches = flow.behind(each.value)
        # An operator that computes does not turn axes: a tool has moved the Transpose that brings channels last behind it.
        moved = each.figures.turned.moves_channels and each.value in flow.file.maker \
            and flow.file.maker[each.value].op_type not in REARRANGING
        if behind and not reaches and (moved or not any(limits.above(flow, other) for other in behind)):
            each.figures = each.figures.turned


def forget_impossible(flow: Flow, tolerance: float) -> bool:
    """A value that was taken for a point because nothing else could be it, that differs, and behind which everything
    agrees, is not the point. True when there was one: the flow is another then."""
    forgotten = False
    for each in flow.measurement.points:
        if each.value is None or each.certain or not each.differs(tolerance):
            continue
        behind, reaches = flow.behind(each.value)
        if behind and not reaches and not any(other.differs(tolerance) for other in behind):
            each.value, each.figures = None, None
            each.reason = "which value of the file it is, is not known"
            forgotten = True
    return forgotten
