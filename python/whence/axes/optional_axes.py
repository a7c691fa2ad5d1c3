"""Axes that are dynamic only where the model lets them be: what dynamic_axes names, and Dim.AUTO."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator
from itertools import combinations, islice
from dataclasses import replace
from typing import Any

from ..command import recorder_library
from ..errors import Diagnostic, WhenceError, WhenceWarning
from ..state.export_settings import log
from .dynamic_axes import Axes, Axis

_MOST_CHOICES = 40  # choices of sizes to fix: for each one the model runs several times


def honoured(axes: Axes, export: Callable[[Axes], None], length: Callable[[str, int], int]) -> Axes:
    """Exports with those automatic axes that the model does not fix, of one size all or none, and returns them;
    torch.export finds out by itself. Of two that differ, one whose ``length`` in the example is 1 is fixed: it is there
    to be broadcast."""
    found: dict[Any, list[Any]] = {}  # by name; an axis without a name is a size of its own
    for name, axis, what in automatic(axes):
        found.setdefault(what.name or (name, axis), []).append((name, axis))
    sizes = dict(sorted(found.items(), key=lambda each: all(length(*axis) != 1 for axis in each[1])))

    try:
        export(axes)
        return axes
    except WhenceError as failure:
        if failure.code != "E0304" or not sizes:
            raise
        first = failure

    def works(fixed: Collection[Any]) -> bool:
        try:
            export(without(axes, [axis for size in fixed for axis in sizes[size]]))
        except WhenceError as failure:
            if failure.code != "E0304":
                raise
            return False
        return True

    fixed = next(([one] for one in sizes if works([one])), None)
    if fixed is None:
        fixed = list(sizes)
        for one in reversed(sizes):
            if works([size for size in fixed if size != one]):
                fixed.remove(one)
        export(without(axes, [axis for size in fixed for axis in sizes[size]]))
    tell_of_fixed(axes, [axis for size in fixed for axis in sizes[size]], first)
    return without(axes, [axis for size in fixed for axis in sizes[size]])


def automatic(axes: Axes) -> Iterator[tuple[str, int, Axis]]:
    for name, each in axes.items():
        yield from ((name, axis, what) for axis, what in each.items() if what.automatic)


def without(axes: Axes, fixed: Collection[tuple[str, int]]) -> Axes:
    """The axes but for these. A sum of sizes of which one is fixed is the other and a number."""
    left = [(name, axis, what) for name, each in axes.items() for axis, what in each.items()
            if (name, axis) not in fixed]
    known = {what.name for _, _, what in left if not what.parts and what.name}
    chosen: Axes = {name: {} for name in axes}
    for name, axis, what in left:
        if (beside := what.beside(known)) is not None:
            chosen[name][axis] = beside
    return chosen


def promised(axes: Axes, chosen: Collection[tuple[str, int]]) -> Axes:
    """The axes with these wishes as promises, which torch.export keeps or refuses."""
    import torch

    firm = torch.export.Dim.DYNAMIC
    return {name: {axis: replace(what, dim=firm) if (name, axis) in chosen else what for axis, what in each.items()}
            for name, each in axes.items()}


def without_baked(axes: Axes, is_right: Callable[[Axes], bool]) -> Axes:
    """The most of the axes with which an export is right: without one of the sizes that are wishes, without two, and so
    on."""
    sizes: dict[str, list[tuple[str, int]]] = {}
    for name, axis, what in automatic(axes):
        if not what.parts:
            sizes.setdefault(what.name or f"{name}:{axis}", []).append((name, axis))
    choices = (fixed for count in range(1, len(sizes)) for fixed in combinations(reversed(sizes), count))
    for fixed in islice(choices, _MOST_CHOICES):
        chosen = without(axes, [axis for size in fixed for axis in sizes[size]])
        if is_right(chosen):
            return chosen
    return without(axes, [(name, axis) for name, axis, _ in automatic(axes)])


def tell_of_fixed(axes: Axes, fixed: Collection[tuple[str, int]], why: Any = None) -> None:
    """An axis that was asked for is reported by a warning; under Dim.AUTO nothing was asked for."""
    wished = [f"axis {axis} of '{name}'" for name, axis in fixed
              if axes[name][axis].wished and not axes[name][axis].proposed]  # ``proposed_axes`` reports those
    for name, axis in fixed:
        log.info("axis %d of '%s' is fixed by the model: %s", axis, name, why)
    if wished:
        traced = "" if recorder_library.is_installed() else \
            f", or have it traced, which may keep it: {recorder_library.why_missing()[1]}"
        told = Diagnostic("E0304", "baked_size", "warning", f"the model fixes {', '.join(wished)}: the file has the "
                          "size of the example" + (f". {why.diagnostics[0].message}" if why else ""),
                          "compute it from the input's shape in the model, or leave the axis out of dynamic_axes" + traced)
        warnings.warn(str(told), WhenceWarning, stacklevel=6)
