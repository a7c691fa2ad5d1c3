"""Finds where differences begin: at values that differ although their inputs agree, or nearly agree."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from . import tensor_differences
from .annotated_file import Node
from .measurements import Measured, Measurement, NumberFormat
from .isolated_modules import IsolatedErrors
from .value_flow import Flow

REARRANGING = {"Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Cast", "Shape", "Expand",
               "Slice", "Gather", "Concat", "Split", "Constant", "ConstantOfShape"}
CONVERTING = {"Cast", "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"}

# A difference begins at a value whose error exceeds the error of its inputs by this factor. A smaller factor is due to
# rounding. The second factor applies after a difference, because an inherited error may grow several times.
_STEP, _LATER_STEP = 3.0, 10.0
_EXPLAINED = 3.0   # a precision explains errors of this many times those of PyTorch in the precision
_MAX_EQUAL = 1e-6  # maximum relative difference of scores that are assumed to have the same order
_CHANGE_FACTOR = 10.0  # ratio of the share of indices that may change to the relative difference of the scores
_MAX_CHANGES, _MAX_SHARE = 2, 0.1  # elements that may change in any way; share of elements that may change by one
_USUAL_STEPS, _MIN_STEPS = 10.0, 12  # limit in multiples of the usual step; minimum number of steps to determine it


@dataclass(frozen=True)
class Limits:
    """The relative differences above which a value differs."""

    general: float      # anywhere in the file
    unquantised: float  # after nodes that do not quantise, if the difference is also far above all earlier errors
    explained: Mapping[str, float] = field(default_factory=dict)  # by the file's precision, by keys of recorded tensors

    def above(self, flow: Flow, measured: Measured) -> bool:
        if measured.figures is not None and not measured.figures.form and \
                measured.figures.relative <= _EXPLAINED * self.explained.get(measured.point.recorded.key, 0.0):
            return False
        if measured.counts_unequal:  # one changed index is a difference, unless small errors of the scores explain it
            inherited = flow.inherited_error(measured.value)
            if inherited <= _MAX_EQUAL:
                return measured.differs(0.0)
            return measured.differs(max(self.general, _CHANGE_FACTOR * inherited)) and not _are_few_changes(measured)
        if measured.differs(self.general):
            return True
        # A Softmax of masked scores amplifies errors that are small relative to the mask, so all earlier errors matter.
        return not flow.is_quantised(measured.value) and measured.differs(
            max(self.unquantised, _LATER_STEP * flow.largest_earlier_error(measured.value)))


def _are_few_changes(measured: Measured) -> bool:
    """Returns true if so few integers changed, or so few by one, that errors of the scores next to a boundary explain
    it: small tensors have few elements."""
    share = measured.figures.relative
    return share * measured.point.recorded.count <= _MAX_CHANGES or measured.figures.largest <= 1 and share <= _MAX_SHARE


@dataclass
class Beginning:
    """A value that differs, and the nodes that compute it from observed values. Leaves out nodes that also compute a
    value that agrees."""

    measured: Measured
    nodes: list[Node]           # in the file's order
    reads: list[Measured]       # the observed values that the nodes read
    calls: list[int]            # the calls to which the nodes belong
    enclosing: int | None       # the innermost call that encloses all ``calls``
    lasts: bool                 # the difference reaches an output of the file or a later observed value
    is_from_weights: bool       # it involves the module's weights, so it is not a changed mask


def limits(flow: Flow, number_format: NumberFormat) -> Limits:
    """Returns ten times the usual error of a step between observed values in this file, clamped to the bounds for its
    number format."""
    steps = []
    for name, measured in flow.observed.items():
        inherited, after = flow.inherited_error(name), measured.figures.relative
        if math.isfinite(after) and after > 0 and math.isfinite(inherited):
            steps.append(math.sqrt(max(after**2 - inherited**2, 0.0)))
    if len(steps) < _MIN_STEPS:
        return Limits(math.sqrt(number_format.min_limit * number_format.max_limit), number_format.unquantised_limit)
    steps.sort()
    # Many steps after a difference are large, so the usual step is taken from the smaller half.
    return Limits(min(max(_USUAL_STEPS * steps[len(steps) // 3], number_format.min_limit), number_format.max_limit),
                  number_format.unquantised_limit)


def find(flow: Flow, limits: Limits) -> list[Beginning]:
    """Returns the beginnings in execution order."""
    differing = {value for value, measured in flow.observed.items() if limits.above(flow, measured)}
    # Nodes of a value that agrees are correct, such as a Reshape that a tool shares among readers. Equal indices,
    # however, do not prove that the scores are correct.
    correct = {node.at for value, measured in flow.observed.items()
               if value not in differing and not measured.counts_unequal for node in flow.region(value)[0]}
    beginnings = []
    for value, measured in flow.observed.items():
        if value not in differing:
            continue
        nodes, reads = flow.region(value)
        nodes = [node for node in nodes if node.at not in correct] or nodes
        inherited = flow.inherited_error(value)
        if measured.figures.relative <= inherited * (_STEP if inherited <= limits.general else _LATER_STEP):
            continue
        beginnings.append(_beginning(flow, measured, nodes, reads, limits))
    return beginnings


def beginning_at(flow: Flow, measured: Measured, limits: Limits) -> Beginning:
    """Returns a beginning at the value, whose inputs are right for another reason than their numbers."""
    return _beginning(flow, measured, *flow.region(measured.value), limits)


def _beginning(flow: Flow, measured: Measured, nodes: list[Node], reads: list[Measured], limits: Limits) -> Beginning:
    calls = _calls_of(flow.measurement, nodes)
    return Beginning(measured, nodes, reads, calls, _enclosing_call(flow.measurement, calls),
                     _does_last(flow, measured, limits), _is_from_weights(flow, measured, nodes, calls))


def corrected(flow: Flow, limits: Limits, beginnings: list[Beginning],
              isolated_errors: IsolatedErrors) -> list[Beginning]:
    """Corrects the beginnings with the errors of modules run alone: removes modules that only inherit a difference, and
    adds modules with an error hidden by an inherited one. Returns the beginnings in execution order."""
    calls = flow.measurement.calls
    own_beginnings: dict[int, Beginning] = {}
    checked: set[int] = set()
    for at, call in enumerate(calls.run.calls):
        if (call.module, call.call) not in isolated_errors.relative:
            continue
        checked.add(at)
        own_error = isolated_errors.relative[call.module, call.call]
        beginning = _call_beginning(flow, limits, at)
        nodes = calls.nodes_of(at)
        is_quantised = flow.quantise(nodes) or flow.is_quantised(beginning.measured.value)
        # The rounding errors of inner modules accumulate in the enclosing module.
        inner_error = max((isolated_errors.relative.get((other.module, other.call), 0.0)
                      for inner, other in enumerate(calls.run.calls)
                      if inner != at and at in calls.enclosing[inner]), default=0.0)
        limit = max(limits.general, _STEP * inner_error) if is_quantised else limits.unquantised
        if own_error > limit and not any(at in calls.enclosing[inner] for inner in own_beginnings):
            own_beginnings[at] = beginning
    remaining = [each for each in beginnings if each.enclosing not in checked or each.enclosing in own_beginnings]
    listed = {each.enclosing for each in remaining}
    corrected_beginnings = remaining + [each for at, each in own_beginnings.items() if at not in listed]
    return sorted(corrected_beginnings, key=lambda each: flow.file.position(each.measured.value))


def _call_beginning(flow: Flow, limits: Limits, at: int) -> Beginning:
    """Returns the call's result with the largest error as a beginning."""
    keys = {measured.key for measured in flow.measurement.calls.run.calls[at].results}
    results = [measured for measured in flow.observed.values() if measured.point.recorded.key in keys]
    worst = max(results, key=lambda measured: measured.figures.relative)
    nodes, reads = flow.region(worst.value)
    own_nodes = [node for node in nodes if flow.measurement.calls.within(node, at)]
    return Beginning(worst, own_nodes or nodes, reads, [at], at, _does_last(flow, worst, limits), True)


def _calls_of(measurement: Measurement, nodes: Iterable[Node]) -> list[int]:
    """Returns the calls of the nodes. Ignores converting nodes, and nodes with only an enclosing module, unless there
    are no other nodes."""
    nodes = [node for node in nodes if node.op_type not in CONVERTING] or list(nodes)
    precise = [node for node in nodes if node.confidence not in ("ancestor", "unattributed")] or nodes
    return list(dict.fromkeys(at for node in precise for at in measurement.calls.calls_of_node[node.at]))


def _enclosing_call(measurement: Measurement, calls: list[int]) -> int | None:
    if not calls:
        return None
    common = frozenset.intersection(*(measurement.calls.enclosing[at] for at in calls))
    return max(common, key=lambda at: len(measurement.calls.enclosing[at]), default=None)


def _does_last(flow: Flow, measured: Measured, limits: Limits) -> bool:
    """Returns true if the difference reaches later values or an output, unlike that of a mask with -inf instead of the
    lowest number. A diluted difference counts if it makes the error of a later value clearly larger than the error of
    its other inputs. Infinite values do not count, because a Tanh or a minimum ends them."""
    later, reaches_output = _after_infinities(flow, measured)
    limit = limits.general if measured.differs(limits.general) else limits.unquantised

    def is_diluted(other: Measured) -> bool:
        reads = flow.region(other.value)[1]
        inherited = max((each.figures.relative for each in reads if each is not measured), default=0.0)
        return other.figures.relative > max(limit / _STEP, _STEP * inherited)

    return reaches_output or not later or any(each.differs(limit) or is_diluted(each) for each in later)


def _after_infinities(flow: Flow, measured: Measured) -> tuple[list[Measured], bool]:
    """Returns the next observed values, in which only elements that are finite in both differ, and true if an output is
    reached before them."""
    later, reaches_output = {}, False
    pending, visited = [measured], set()
    while pending:
        last = pending.pop()
        visited.add(last.value)
        following, reaches = flow.next_observed(last.value)
        reaches_output = reaches_output or reaches
        for each in following:
            if measured.figures.not_finite and each.figures.not_finite:
                pending += [each] if each.value not in visited else []
            else:
                later[each.value] = each
    return list(later.values()), reaches_output


def _is_from_weights(flow: Flow, measured: Measured, nodes: Iterable[Node], calls: list[int]) -> bool:
    """Returns true if the value depends only on the module's own weights. With weights of another module, into which a
    tool may have multiplied a scale, it may be another value. A node fused from several modules belongs to each."""
    weighted = [node for node in nodes if flow.has_weights([node])]
    if not measured.certain or not weighted or not math.isfinite(measured.figures.relative):
        return False
    source_call, run_calls = measured.point.source_call, flow.measurement.calls
    return len(calls) == 1 or source_call is not None and all(
        run_calls.touches(node, source_call) for node in weighted)


def resolve_layouts(flow: Flow, limits: Limits) -> None:
    """Decides whether values that equal their point in another order of equal-sized axes are correct. They are
    correct if all later values agree, or if channels moved between first and last and the value's node does not
    rearrange axes."""
    for measured in reversed(flow.measurement.points):
        if measured.value is None or measured.figures.permuted is None:
            continue
        later, reaches_output = flow.next_observed(measured.value)
        # A computing operator does not permute axes, so a tool moved a Transpose across it.
        moved = measured.figures.permuted.moves_channels and measured.value in flow.file.producer \
            and flow.file.producer[measured.value].op_type not in REARRANGING
        if later and not reaches_output and (moved or not any(limits.above(flow, other) for other in later)):
            measured.figures = measured.figures.permuted


def follow_wrong_sizes(flow: Flow) -> bool:
    """If an output of the file has more or fewer axes than PyTorch's, the values before it that differ by as many axes have
    wrong sizes, too, back to the first one. Elsewhere, tools add and remove axes as they like. Returns true if it found
    any: the flow must then be rebuilt."""
    found: dict[str, Measured] = {}
    for output in [each for each in flow.observed.values() if each.is_wrong_output]:
        pending = [output]
        while pending:
            for read in flow.region(pending.pop().value)[1]:
                if read.value not in found and _more_axes(read) == _more_axes(output) != 0 and not read.figures.form:
                    found[read.value] = read
                    pending.append(read)
    for measured in found.values():
        form = tensor_differences.wrong_sizes(measured.point.recorded, measured.figures.sizes)
        measured.figures = tensor_differences.with_wrong_sizes(measured.figures, form)
    return bool(found)


def _more_axes(measured: Measured) -> int:
    return len(measured.figures.sizes) - len(measured.point.recorded.dims)


def drop_implausible(flow: Flow, tolerance: float) -> bool:
    """Drops the values of uncertain points if they differ although all later values agree. Returns true if it dropped
    any: the flow must then be rebuilt."""
    dropped = False
    for measured in flow.measurement.points:
        if measured.value is None or measured.certain or not measured.differs(tolerance):
            continue
        later, reaches_output = flow.next_observed(measured.value)
        if later and not reaches_output and not any(other.differs(tolerance) for other in later):
            measured.value, measured.figures = None, None
            measured.reason = "its value in the file is unknown"
            dropped = True
    return dropped
