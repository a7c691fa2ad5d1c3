"""Finds where differences begin: at values that differ while their inputs agree, or nearly agree."""

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

# A difference begins at a value whose error is this many times the error of its inputs. Less is accumulated rounding.
# After a difference, an inherited error may grow several times, so the second factor applies.
_STEP, _STEP_BEHIND = 3.0, 10.0
_EQUAL = 1e-6  # relative difference below which scores are assumed to have the same order
_CHANGED = 10.0  # share of indices that may change, per relative difference of the scores
_USUAL, _ENOUGH = 10.0, 12  # a difference in usual steps; fewest steps to determine the usual one


@dataclass(frozen=True)
class Limits:
    """The relative differences above which a value differs."""

    whole: float  # anywhere in the file
    exact: float  # after nodes that quantise nothing, if also far above all earlier errors

    def above(self, flow: Flow, each: Measured) -> bool:
        if each.counts:  # one changed index is a difference, unless a small error of the scores changed it
            before = flow.before(each.value)
            return each.differs(max(self.whole, _CHANGED * before) if before > _EQUAL else 0.0)
        if each.differs(self.whole):
            return True
        # A Softmax of masked scores amplifies errors that are small beside the mask: all earlier errors count.
        return not flow.is_quantised(each.value) and each.differs(
            max(self.exact, _STEP_BEHIND * flow.ever_before(each.value)))


@dataclass
class Beginning:
    """A value that differs, and the nodes that compute it from observed values, without nodes that also compute a value
    that agrees."""

    measured: Measured
    nodes: list[Node]           # in the file's order
    reads: list[Measured]       # the observed values that the nodes read
    calls: list[int]            # the calls that the nodes belong to
    around: int | None          # the innermost call around all ``calls``
    lasts: bool                 # it reaches an output of the file, or a later observed value
    weighs: bool                # the module's weights take part in it: it is not a changed mask


def limits(flow: Flow, kind: Kind) -> Limits:
    """Returns ten times the usual error of one step between observed values in this file, within the bounds for its
    number format."""
    steps = []
    for name, each in flow.observed.items():
        before, after = flow.before(name), each.figures.relative
        if math.isfinite(after) and after > 0 and math.isfinite(before):
            steps.append(math.sqrt(max(after**2 - before**2, 0.0)))
    if len(steps) < _ENOUGH:
        return Limits(math.sqrt(kind.least * kind.most), kind.exact)
    steps.sort()
    # Many steps after a difference are large, so the usual step comes from the smaller half.
    return Limits(min(max(_USUAL * steps[len(steps) // 3], kind.least), kind.most), kind.exact)


def find(flow: Flow, limits: Limits) -> list[Beginning]:
    """Returns the beginnings in the order of execution."""
    differing = {value for value, each in flow.observed.items() if limits.above(flow, each)}
    # A node that computes an agreeing value is correct: for instance a Reshape that a tool shares among readers.
    # An equal index does not prove its scores correct.
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
    """Corrects the beginnings by the errors of modules run alone, in the order of execution. An inherited difference
    does not begin in a module; a module's own error hidden by an inherited one does."""
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
        # The rounding of inner modules accumulates in the module around them.
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
    """Returns the result of a call with the largest error, as a beginning."""
    keys = {each.key for each in flow.measurement.calls.run.calls[at].results}
    results = [each for each in flow.observed.values() if each.point.recorded.key in keys]
    worst = max(results, key=lambda each: each.figures.relative)
    nodes, reads = flow.region(worst.value)
    own = [node for node in nodes if flow.measurement.calls.within(node, at)]
    return Beginning(worst, own or nodes, reads, [at], at, _lasts(flow, worst, limits), True)


def _calls_of(measurement: Measurement, nodes: Iterable[Node]) -> list[int]:
    """Returns the calls of the nodes. Nodes known only by an enclosing module, and nodes that quantise for several
    readers, count only if there are no others."""
    nodes = [node for node in nodes if node.op_type not in _CONVERTING] or list(nodes)
    known = [node for node in nodes if node.confidence not in ("ancestor", "unattributed")] or nodes
    return list(dict.fromkeys(at for node in known for at in measurement.calls.of_node[node.at]))


def _around(measurement: Measurement, calls: list[int]) -> int | None:
    if not calls:
        return None
    common = frozenset.intersection(*(measurement.calls.around[at] for at in calls))
    return max(common, key=lambda at: len(measurement.calls.around[at]), default=None)


def _lasts(flow: Flow, measured: Measured, limits: Limits) -> bool:
    """Returns true if the difference reaches later values or an output. A mask of -inf instead of the lowest number
    does not. A diluted difference lasts too: a later value then has a larger error than all its other inputs."""
    behind, reaches = flow.behind(measured.value)
    limit = limits.whole if measured.differs(limits.whole) else limits.exact

    def is_diluted(other: Measured) -> bool:
        reads = flow.region(other.value)[1]
        before = max((each.figures.relative for each in reads if each is not measured), default=0.0)
        return other.figures.relative > max(limit / _STEP, _STEP * before)

    return reaches or not behind or any(each.differs(limit) or is_diluted(each) for each in behind)


def _weighs(flow: Flow, each: Measured, nodes: Iterable[Node], calls: list[int]) -> bool:
    """Returns true if only the module's own weights take part in the value. With weights of another module it may be
    another value, because a tool multiplied a scale into them. A node fused from several modules belongs to each."""
    weighing = [node for node in nodes if flow.has_weights([node])]
    if not each.certain or not weighing or not math.isfinite(each.figures.relative):
        return False
    maker, known = each.point.maker, flow.measurement.calls
    return len(calls) == 1 or maker is not None and all(known.touches(node, maker) for node in weighing)


def settle_layouts(flow: Flow, limits: Limits) -> None:
    """Decides whether a value that equals the point in another order of equal-sized axes only has another layout. It
    has if all later values agree, or if channels moved from first to last and no rearranging node computes it.
    Otherwise its axes are in a wrong order."""
    for each in reversed(flow.measurement.points):
        if each.value is None or each.figures.turned is None:
            continue
        behind, reaches = flow.behind(each.value)
        # A computing operator does not permute axes: a tool has moved the Transpose that puts channels last after it.
        moved = each.figures.turned.moves_channels and each.value in flow.file.maker \
            and flow.file.maker[each.value].op_type not in REARRANGING
        if behind and not reaches and (moved or not any(limits.above(flow, other) for other in behind)):
            each.figures = each.figures.turned


def forget_impossible(flow: Flow, tolerance: float) -> bool:
    """Drops a value that was paired with a point only for lack of others, that differs, and after which everything
    agrees. Returns true if there was one: the flow has to be built again."""
    forgotten = False
    for each in flow.measurement.points:
        if each.value is None or each.certain or not each.differs(tolerance):
            continue
        behind, reaches = flow.behind(each.value)
        if behind and not reaches and not any(other.differs(tolerance) for other in behind):
            each.value, each.figures = None, None
            each.reason = "its value in the file is unknown"
            forgotten = True
    return forgotten
