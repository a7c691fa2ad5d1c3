"""Checks annotations against recorded values: finds results that are proved, and values that belong to another
module."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from ..values.value_file import Recorded, Values
from . import tensor_differences
from .first_differences import Limits
from .measurements import Measured
from .runtimes import Runtime
from .tensor_differences import Figures
from .value_flow import Flow

_MAX_VALUES = 64       # maximum number of differing values to compare with results of other modules
_ALIKE_LIMIT = 1e-3    # results with a smaller relative difference do not distinguish their modules


@dataclass(frozen=True)
class Contradiction:
    """A value that is annotated as the result of one module but equals the result of another module."""

    module: str
    call: int
    other: str       # the module that returned the equal result
    other_call: int
    value: str
    relative: float  # relative difference between the value and that result

    def __str__(self) -> str:
        def name(module: str, call: int) -> str:
            return (module or "(root)") + (f" call {call}" if call else "")

        return (f"'{self.value}' is annotated as the result of {name(self.module, self.call)}, but equals the "
                f"result of {name(self.other, self.other_call)}")


@dataclass(frozen=True)
class Misplaced:
    """A value that differs from the result that it is annotated as, and equals another one."""

    measured: Measured
    other: Measured
    figures: Figures  # the value compared with the other result
    value: str        # in the file


class Evidence:
    """The distinctive results of a recorded run, which are neither constant nor similar to other results."""

    def __init__(self, flow: Flow, values: Values) -> None:
        self._values = values
        self._points = [each for each in flow.measurement.points if each.point.returned_by]
        self._distinctive: set[str] = set()
        self._contradicted: set[str] = set()  # results whose values the file annotates as those of other modules
        for group in self._by_count().values():
            self._distinctive |= set(self._distinctive_keys(group))

    def _by_count(self) -> dict[int, list[Recorded]]:
        groups: dict[int, list[Recorded]] = {}
        for measured in self._points:
            if tensor_differences.is_number(measured.point.recorded):
                groups.setdefault(measured.point.recorded.count, []).append(measured.point.recorded)
        return groups

    def _distinctive_keys(self, group: Sequence[Recorded]) -> Iterator[str]:
        """Yields the keys of tensors that are neither constant nor similar to another tensor in the group."""
        rows = torch.stack([tensor_differences.samples_of(self._values, recorded)[1].double()
                            for recorded in group]).nan_to_num(0, 0, 0)
        lengths = rows.square().sum(1)
        # Squared distances of all pairs.
        distances = lengths[:, None] + lengths[None, :] - 2 * rows @ rows.T
        distances.fill_diagonal_(math.inf)
        nearest = distances.min(1).values.clamp(min=0).sqrt() if len(group) > 1 else torch.full((len(group),), math.inf)
        varies = (rows.max(1).values - rows.min(1).values) > _ALIKE_LIMIT * rows.abs().max(1).values
        for recorded, near, length, vary in zip(group, nearest, lengths.sqrt(), varies):
            if vary and near > _ALIKE_LIMIT * length:
                yield recorded.key

    def prove(self, flow: Flow, limits: Limits, results: Sequence[Measured]) -> bool:
        """Returns true if all observed results of a call equal the recorded results, as annotated, and at least one is
        distinctive."""
        return all(each.certain and not limits.above(flow, each) and each.point.recorded.key not in self._contradicted
                   for each in results) \
            and any(each.point.recorded.key in self._distinctive for each in results)

    def misplaced(self, flow: Flow, limits: Limits, runtime: Runtime) -> list[Misplaced]:
        """Compares the values that differ with the results of all other modules. Runs the file again."""
        differing = {each.value: each for each in self._points
                     if each.value is not None and limits.above(flow, each) and not each.counts_unequal}
        names = list(differing)[:_MAX_VALUES]
        if not names:
            return []
        found = []
        for name, tensor in runtime.take(flow.measurement.feed.tensors, names):
            other, figures = self._nearest_other(differing[name], tensor)
            if other is not None and figures.relative <= limits.general:
                found.append(Misplaced(differing[name], other, figures, name))
        return found

    def move_to_equal(self, flow: Flow, limits: Limits, misplaced: Sequence[Misplaced]) -> bool:
        """Moves values to the results that they equal if all later values agree: a tool merged the other module into this
        one. If later values differ, the file uses the wrong value. Returns true if it moved any: the flow must then be
        rebuilt."""
        def is_right(each: Misplaced) -> bool:
            later, reaches_output = flow.next_observed(each.value)
            return bool(later) and not reaches_output and not any(limits.above(flow, one) for one in later)

        calls = flow.measurement.calls.run.calls
        moved = [each for each in misplaced if is_right(each)]
        for each in moved:
            each.measured.value, each.measured.figures = None, None
            each.measured.reason = f"{each.value} equals the result of {calls[each.other.point.source_call].name}"
        for each in moved:
            if each.other.value is None:
                each.other.value, each.other.figures, each.other.certain = each.value, each.figures, True
            self._contradicted |= {each.measured.point.recorded.key, each.other.point.recorded.key}
        return bool(moved)

    def _nearest_other(self, measured: Measured, tensor: torch.Tensor) -> tuple[Measured | None, Figures | None]:
        compared = ((other, tensor_differences.compare(self._values, other.point.recorded, tensor, in_own_order=True))
                    for other in self._points if other is not measured and other.point.recorded.key in self._distinctive
                    and other.point.recorded.count == measured.point.recorded.count)
        near = [(other, figures) for other, figures in compared if figures is not None]
        return min(near, key=lambda pair: pair[1].relative, default=(None, None))


def contradiction(flow: Flow, misplaced: Misplaced) -> Contradiction:
    calls = flow.measurement.calls.run.calls
    annotated, actual = calls[misplaced.measured.point.source_call], calls[misplaced.other.point.source_call]
    return Contradiction(annotated.module, annotated.call, actual.module, actual.call, misplaced.value,
                         misplaced.figures.relative)
