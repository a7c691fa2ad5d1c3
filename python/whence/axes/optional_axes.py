"""Optional axes, which are dynamic only if the model allows it: the axes in dynamic_axes, and Dim.AUTO."""

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

_MAX_CHOICES = 40  # limit of attempts to fix some sizes; each attempt runs the model several times


def export_with_optional_axes(axes: Axes, export: Callable[[Axes], None], length: Callable[[str, int], int]) -> Axes:
    """Exports with as many optional axes dynamic as the model allows, and returns them. Axes with the same name are
    kept or fixed together. Sizes whose ``length`` in the example is 1 are fixed first: they are usually broadcast.
    Not needed for torch.export, which finds dynamic axes itself."""
    axes_by_size: dict[Any, list[Any]] = {}  # by name; an axis without a name counts as a separate size
    for name, axis, spec in fixable(axes):
        axes_by_size.setdefault(spec.name or (name, axis), []).append((name, axis))
    sizes = dict(sorted(axes_by_size.items(), key=lambda size: all(length(*axis) != 1 for axis in size[1])))

    try:
        export(axes)
        return axes
    except WhenceError as failure:
        if failure.code != "E0304" or not sizes:
            raise
        first_failure = failure

    def works(fixed: Collection[Any]) -> bool:
        try:
            export(without(axes, [axis for size in fixed for axis in sizes[size]]))
        except WhenceError as failure:
            if failure.code != "E0304":
                raise
            return False
        return True

    fixed = next(([size] for size in sizes if works([size])), None)
    if fixed is None:
        fixed = list(sizes)
        for size in reversed(sizes):
            if works([each for each in fixed if each != size]):
                fixed.remove(size)
        export(without(axes, [axis for size in fixed for axis in sizes[size]]))
    report_fixed(axes, [axis for size in fixed for axis in sizes[size]], first_failure)
    return without(axes, [axis for size in fixed for axis in sizes[size]])


def fixable(axes: Axes) -> Iterator[tuple[str, int, Axis]]:
    for name, specs in axes.items():
        yield from ((name, axis, spec) for axis, spec in specs.items() if spec.may_be_fixed)


def without(axes: Axes, fixed: Collection[tuple[str, int]]) -> Axes:
    """Returns the axes without the fixed ones. A fixed size in a sum becomes a number: past+sequence becomes past+3."""
    remaining = [(name, axis, spec) for name, specs in axes.items() for axis, spec in specs.items()
                 if (name, axis) not in fixed]
    dynamic_names = {spec.name for _, _, spec in remaining if not spec.parts and spec.name}
    chosen: Axes = {name: {} for name in axes}
    for name, axis, spec in remaining:
        if (limited := spec.limited_to(dynamic_names)) is not None:
            chosen[name][axis] = limited
    return chosen


def with_required(axes: Axes, chosen: Collection[tuple[str, int]]) -> Axes:
    """Makes the chosen optional axes required, so that torch.export keeps them dynamic or refuses the model."""
    import torch

    required = torch.export.Dim.DYNAMIC
    return {name: {axis: replace(spec, dim=required) if (name, axis) in chosen else spec
                   for axis, spec in specs.items()} for name, specs in axes.items()}


def correct_subset(axes: Axes, is_correct: Callable[[Axes], bool]) -> Axes:
    """Returns a large subset of the axes for which ``is_correct`` returns true. Tries to fix one optional size, then
    two, and so on."""
    sizes: dict[str, list[tuple[str, int]]] = {}
    for name, axis, spec in fixable(axes):
        if not spec.parts:
            sizes.setdefault(spec.name or f"{name}:{axis}", []).append((name, axis))
    choices = (fixed for count in range(1, len(sizes)) for fixed in combinations(reversed(sizes), count))
    for fixed in islice(choices, _MAX_CHOICES):
        chosen = without(axes, [axis for size in fixed for axis in sizes[size]])
        if is_correct(chosen):
            return chosen
    return without(axes, [(name, axis) for name, axis, _ in fixable(axes)])


def report_fixed(axes: Axes, fixed: Collection[tuple[str, int]], why: Any = None) -> None:
    """Warns about fixed axes that the caller requested. Axes with Dim.AUTO are only logged."""
    requested = [f"axis {axis} of '{name}'" for name, axis in fixed
                 if axes[name][axis].optional and not axes[name][axis].proposed]  # ``proposed_axes`` reports these
    for name, axis in fixed:
        log.info("axis %d of '%s' is fixed by the model: %s", axis, name, why)
    if requested:
        trace_remedy = "" if recorder_library.is_installed() else \
            f", or install the recorder, because a trace may keep the axis dynamic: {recorder_library.why_missing()[1]}"
        diagnostic = Diagnostic(
            "E0304", "baked_size", "warning", f"the model fixes {', '.join(requested)}: the file has the size of the "
            "example" + (f". {why.diagnostics[0].message}" if why else ""),
            "compute the size from the input's shape in the model, or leave the axis out of dynamic_axes"
            + trace_remedy)
        warnings.warn(str(diagnostic), WhenceWarning, stacklevel=6)
