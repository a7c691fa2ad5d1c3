"""Varies the sizes and elements of the example, to compare a captured model with the model itself."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import torch

from ..axes.dynamic_axes import Axes, Axis
from . import size_conditions
from .size_conditions import SizeUse

Tensors = Mapping[str, torch.Tensor]


def sizes_of(given: Tensors, axes: Axes) -> str:
    return ", ".join(f"axis {axis} of '{name}' at {given[name].shape[axis]}" for name, each in axes.items()
                     for axis in each)


def _signs(floating: Callable[[torch.Tensor], torch.Tensor], boolean: Callable[[torch.Tensor], torch.Tensor]):
    def change(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dtype == torch.bool:
            return boolean(tensor)
        return floating(tensor) if tensor.is_floating_point() else tensor
    return change


def _every_second(tensor: torch.Tensor) -> torch.Tensor:
    return tensor & (torch.arange(tensor.numel(), device=tensor.device) % 2 == 0).reshape(tensor.shape)


OTHER_DATA = "other data"

# Changes of the tensors' elements: after each, some, all or none of them are true or positive.
DATA_CHANGES = (_signs(torch.neg, _every_second), _signs(torch.abs, torch.ones_like),
                _signs(lambda tensor: -tensor.abs(), torch.zeros_like))


def at_other_sizes(contents: Sequence[Tensors], axes: Axes) -> Iterator[dict[str, torch.Tensor]]:
    """Yields the tensors with all dynamic axes longer: by one; twice as long, because some models take only multiples;
    and four times as long if that is still short, so that more numbers computed from sizes change. Also yields sizes on
    which models often branch: for proposed axes, an empty past and one token; for the caller's axes, one."""
    if any(axes.values()):
        for each in contents:
            yield from _at_other_sizes(each, axes)


def with_other_elements(tensors: Tensors, axes: Axes) -> Sequence[Tensors]:
    """Returns the tensors, and a variant with random elements for floating tensors that are constant: on ones, x + 1
    equals x * 2. Without dynamic axes, returns only the tensors."""
    varied = {name: tensor + torch.rand(tensor.shape, generator=torch.Generator().manual_seed(0)).to(tensor)
              for name, tensor in tensors.items()
              if any(axes.values()) and tensor.is_floating_point() and tensor.numel() > 0
              and bool((tensor == tensor.flatten()[0]).all())}
    return [tensors, {**tensors, **varied}] if varied else [tensors]


def _at_other_sizes(tensors: Tensors, axes: Axes) -> Iterator[dict[str, torch.Tensor]]:
    changed = partial(_at_sizes, tensors, axes)
    usual = [lambda what, size: size + what.times, lambda _, size: 2 * size,
             lambda _, size: 4 * size if size < 16 else size]
    if any(what.smallest is None for each in axes.values() for what in each.values()):
        usual.append(lambda what, size: 1 if what.smallest is None else size)
    yield from filter(partial(_in_bounds, axes), map(changed, usual))
    smallest = {what.name: what.smallest for each in axes.values() for what in each.values()
                if what.smallest is not None}
    for names in [{name} for name in smallest] + [set(smallest)] * (len(smallest) > 1):
        yield changed(lambda what, size: smallest[what.name] if what.name in names else size)


def at_one_each(contents: Sequence[Tensors], axes: Axes) -> Iterator[dict[str, torch.Tensor]]:
    """Yields the tensors with one of several sizes at 1: a model may not run if all of them are 1."""
    every = [what for each in axes.values() for what in each.values()]
    names = dict.fromkeys(what.name for what in every if what.smallest is None and not what.parts)
    if len(names) < 2 or any(what.times != 1 for what in every):
        return
    for chosen in names:
        for each in contents:
            given = _at_sizes(each, axes, lambda what, size: 1 if what.name == chosen else size)
            if _in_bounds(axes, given):
                yield given


def at_long_sizes(model: torch.nn.Module, tensors: Tensors,
                  axes: Axes) -> Iterator[dict[str, torch.Tensor]]:
    """Yields the tensors with one size longer than the chunks in which models work (256), if the run is short."""
    long = 300
    every = [(what, tensors[name].shape[axis]) for name, each in axes.items() for axis, what in each.items()]
    if any(what.times != 1 for what, _ in every):
        return
    parameters = sum(each.numel() for each in model.parameters())
    varied = with_other_elements(tensors, axes)[-1]
    for chosen in {what.name: None for what, size in every
                   if not what.parts and size < long and (getattr(what.dim, "max", None) or long) >= long}:
        longer = _at_sizes(varied, axes, lambda what, size: long if what.name == chosen else size)
        if _is_little_work(longer, parameters):
            yield longer


def _is_little_work(tensors: Tensors, parameters: int) -> bool:
    """Returns true if the run has fewer products of elements and parameters than take a second."""
    max_products = 2e10
    return sum(each.numel() for each in tensors.values()) * (parameters + 1) < max_products


def at_turning_points(model: torch.nn.Module, tensors: Tensors, axes: Axes,
                      size_uses: Sequence[SizeUse]) -> Iterator[dict[str, torch.Tensor]]:
    """Yields the tensors with sizes at which a condition in Python changes its result, if the run is short."""
    max_sizes = 40
    points = list(dict.fromkeys(point for use in size_uses for point in use.turns))
    if not points or any(what.times != 1 for each in axes.values() for what in each.values()):
        return
    parameters = sum(each.numel() for each in model.parameters())
    sizes = {what.name: tensors[name].shape[axis] for name, each in axes.items() for axis, what in each.items()
             if not what.parts}
    for chosen, other in itertools.islice(size_conditions.sizes_of_axes(points, sizes), max_sizes):
        given = _at_sizes(tensors, axes, lambda what, own: other if what.name == chosen else own)
        if _in_bounds(axes, given) and _is_little_work(given, parameters):
            yield given


def reordered(contents: Sequence[Tensors], axes: Axes) -> Iterator[dict[str, torch.Tensor]]:
    """Yields the tensors with similar sizes in reverse order, and with them equal: models compare sizes."""
    if any(what.parts or what.times != 1 for each in axes.values() for what in each.values()):
        return
    sizes = {what.name: contents[0][name].shape[axis] for name, each in axes.items() for axis, what in each.items()}
    order = sorted(sizes, key=lambda name: sizes[name])
    groups = [[name for name in order if lowest <= sizes[name] < 4 * lowest] for lowest in (2, 8, 32, 128, 512)]
    groups = [group for group in groups if len(group) > 1]
    exchanged, equal = dict(sizes), dict(sizes)
    for group in groups:
        for position, (name, other) in enumerate(zip(group, reversed(group), strict=True)):
            exchanged[name] = sizes[other] + len(group) - position  # differs even if all sizes are equal
            equal[name] = sizes[group[0]] + 1
    for others in (exchanged, equal) if groups else ():
        for each in contents:
            if _in_bounds(axes, given := _at_sizes(each, axes, lambda what, _: others[what.name])):
                yield given


def _in_bounds(axes: Axes, given: Tensors) -> bool:
    """Returns true for sizes within the bounds of the caller's Dims."""
    def holds(what: Axis, size: int) -> bool:
        lowest, highest = getattr(what.dim, "min", None), getattr(what.dim, "max", None)
        return (lowest is None or size >= lowest) and (highest is None or size <= highest)

    return all(holds(what, given[name].shape[axis]) for name, each in axes.items() for axis, what in each.items())


def at_usual_sizes(tensors: Tensors, axes: Axes) -> dict[str, torch.Tensor] | None:
    """Returns the tensors with sizes of 3 or more instead of 0 and 1 along proposed axes: models branch on small sizes,
    and a trace contains one branch. Returns None if there are no such sizes, or if the axes are the caller's."""
    small = [name for name, each in axes.items() for axis, what in each.items()
             if what.smallest is not None and tensors[name].shape[axis] < 2]
    if not small:
        return None
    return _at_sizes(tensors, axes,
                     lambda what, size: size if what.smallest is None or size > 1 else 4 - what.smallest)


def _at_sizes(tensors: Tensors, axes: Axes,
              size_of: Callable[[Axis, int], int]) -> dict[str, torch.Tensor]:
    every = [(name, axis, what) for name, each in axes.items() for axis, what in each.items()]
    parts = {what.name: (what, tensors[name].shape[axis]) for name, axis, what in every if not what.parts}
    other = dict(tensors)
    for name, axis, what in every:
        size = what.plus + sum(size_of(*parts[part]) for part, _ in what.parts) if what.parts \
            else size_of(what, tensors[name].shape[axis])
        other[name] = stretched(other[name], axis, size)
    return other


def stretched(tensor: torch.Tensor, axis: int, size: int) -> torch.Tensor:
    """Repeats the tensor's own elements along an axis, so that indices and masks stay valid."""
    if tensor.shape[axis] == 0:
        return tensor.new_zeros([size if each == axis else length for each, length in enumerate(tensor.shape)])
    return tensor.index_select(axis, torch.arange(size, device=tensor.device) % tensor.shape[axis])
