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


def sizes_of(inputs: Tensors, axes: Axes) -> str:
    return ", ".join(f"axis {axis} of '{name}' at {inputs[name].shape[axis]}" for name, specs in axes.items()
                     for axis in specs)


def _by_dtype(floating: Callable[[torch.Tensor], torch.Tensor], boolean: Callable[[torch.Tensor], torch.Tensor]):
    def change(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dtype == torch.bool:
            return boolean(tensor)
        return floating(tensor) if tensor.is_floating_point() else tensor
    return change


def _clear_every_second(tensor: torch.Tensor) -> torch.Tensor:
    return tensor & (torch.arange(tensor.numel(), device=tensor.device) % 2 == 0).reshape(tensor.shape)


OTHER_DATA = "other data"

# Changes of the tensors' elements, after which some, all or none of the elements are true or positive.
DATA_CHANGES = (_by_dtype(torch.neg, _clear_every_second), _by_dtype(torch.abs, torch.ones_like),
                _by_dtype(lambda tensor: -tensor.abs(), torch.zeros_like))


def at_other_sizes(contents: Sequence[Tensors], axes: Axes) -> Iterator[dict[str, torch.Tensor]]:
    """Yields the tensors with all dynamic axes longer: by one; twice as long, because some models take only multiples;
    and four times as long if that is still short, so that more numbers computed from sizes change. Also yields sizes on
    which models often branch: an empty past and one token for proposed axes, and 1 for the caller's axes."""
    if any(axes.values()):
        for tensors in contents:
            yield from _at_other_sizes(tensors, axes)


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
    usual = [lambda spec, size: size + spec.times, lambda _, size: 2 * size,
             lambda _, size: 4 * size if size < 16 else size]
    if any(spec.smallest is None for specs in axes.values() for spec in specs.values()):
        usual.append(lambda spec, size: 1 if spec.smallest is None else size)
    yield from filter(partial(_in_bounds, axes), map(changed, usual))
    smallest = {spec.name: spec.smallest for specs in axes.values() for spec in specs.values()
                if spec.smallest is not None}
    for names in [{name} for name in smallest] + [set(smallest)] * (len(smallest) > 1):
        yield changed(lambda spec, size: smallest[spec.name] if spec.name in names else size)


def with_one_size_of_1(contents: Sequence[Tensors], axes: Axes) -> Iterator[dict[str, torch.Tensor]]:
    """Yields the tensors with one of several sizes set to 1: a model may fail if all of them are 1."""
    all_specs = [spec for specs in axes.values() for spec in specs.values()]
    names = dict.fromkeys(spec.name for spec in all_specs if spec.smallest is None and not spec.parts)
    if len(names) < 2 or any(spec.times != 1 for spec in all_specs):
        return
    for chosen in names:
        for tensors in contents:
            inputs = _at_sizes(tensors, axes, lambda spec, size: 1 if spec.name == chosen else size)
            if _in_bounds(axes, inputs):
                yield inputs


def at_long_sizes(model: torch.nn.Module, tensors: Tensors,
                  axes: Axes) -> Iterator[dict[str, torch.Tensor]]:
    """Yields the tensors with one size longer than the chunks (256) that models often use, if the run is short."""
    long = 300
    specs_and_sizes = [(spec, tensors[name].shape[axis])
                       for name, specs in axes.items() for axis, spec in specs.items()]
    if any(spec.times != 1 for spec, _ in specs_and_sizes):
        return
    parameters = sum(each.numel() for each in model.parameters())
    varied = with_other_elements(tensors, axes)[-1]
    for chosen in {spec.name: None for spec, size in specs_and_sizes
                   if not spec.parts and size < long and (getattr(spec.dim, "max", None) or long) >= long}:
        longer = _at_sizes(varied, axes, lambda spec, size: long if spec.name == chosen else size)
        if _is_short_run(longer, parameters):
            yield longer


def _is_short_run(tensors: Tensors, parameters: int) -> bool:
    """Returns true if the run takes less than about a second, judged by the product of elements and parameters."""
    max_products = 2e10
    return sum(each.numel() for each in tensors.values()) * (parameters + 1) < max_products


def at_turning_points(model: torch.nn.Module, tensors: Tensors, axes: Axes,
                      size_uses: Sequence[SizeUse]) -> Iterator[dict[str, torch.Tensor]]:
    """Yields the tensors with sizes at which a condition in Python changes its result, if the run is short."""
    max_sizes = 40
    points = list(dict.fromkeys(point for use in size_uses for point in use.turns))
    if not points or any(spec.times != 1 for specs in axes.values() for spec in specs.values()):
        return
    parameters = sum(each.numel() for each in model.parameters())
    sizes = {spec.name: tensors[name].shape[axis] for name, specs in axes.items() for axis, spec in specs.items()
             if not spec.parts}
    for chosen, other in itertools.islice(size_conditions.sizes_of_axes(points, sizes), max_sizes):
        inputs = _at_sizes(tensors, axes, lambda spec, own: other if spec.name == chosen else own)
        if _in_bounds(axes, inputs) and _is_short_run(inputs, parameters):
            yield inputs


def with_exchanged_sizes(contents: Sequence[Tensors], axes: Axes) -> Iterator[dict[str, torch.Tensor]]:
    """Yields the tensors with similar sizes exchanged, and with similar sizes equal, because models compare sizes."""
    if any(spec.parts or spec.times != 1 for specs in axes.values() for spec in specs.values()):
        return
    sizes = {spec.name: contents[0][name].shape[axis] for name, specs in axes.items() for axis, spec in specs.items()}
    order = sorted(sizes, key=lambda name: sizes[name])
    groups = [[name for name in order if lowest <= sizes[name] < 4 * lowest] for lowest in (2, 8, 32, 128, 512)]
    groups = [group for group in groups if len(group) > 1]
    exchanged, equal = dict(sizes), dict(sizes)
    for group in groups:
        for position, (name, other) in enumerate(zip(group, reversed(group), strict=True)):
            exchanged[name] = sizes[other] + len(group) - position  # differs even if all sizes are equal
            equal[name] = sizes[group[0]] + 1
    for others in (exchanged, equal) if groups else ():
        for tensors in contents:
            if _in_bounds(axes, inputs := _at_sizes(tensors, axes, lambda spec, _: others[spec.name])):
                yield inputs


def _in_bounds(axes: Axes, inputs: Tensors) -> bool:
    """Returns true for sizes within the bounds of the caller's Dims."""
    def is_allowed(spec: Axis, size: int) -> bool:
        lowest, highest = getattr(spec.dim, "min", None), getattr(spec.dim, "max", None)
        return (lowest is None or size >= lowest) and (highest is None or size <= highest)

    return all(is_allowed(spec, inputs[name].shape[axis])
               for name, specs in axes.items() for axis, spec in specs.items())


def at_usual_sizes(tensors: Tensors, axes: Axes) -> dict[str, torch.Tensor] | None:
    """Returns the tensors with sizes of 3 or more instead of 0 and 1 along proposed axes: models branch on small sizes,
    and a trace contains one branch. Returns None if there are no such axes."""
    small = [name for name, specs in axes.items() for axis, spec in specs.items()
             if spec.smallest is not None and tensors[name].shape[axis] < 2]
    if not small:
        return None
    return _at_sizes(tensors, axes,
                     lambda spec, size: size if spec.smallest is None or size > 1 else 4 - spec.smallest)


def _at_sizes(tensors: Tensors, axes: Axes,
              size_of: Callable[[Axis, int], int]) -> dict[str, torch.Tensor]:
    dynamic_axes = [(name, axis, spec) for name, specs in axes.items() for axis, spec in specs.items()]
    parts = {spec.name: (spec, tensors[name].shape[axis]) for name, axis, spec in dynamic_axes if not spec.parts}
    resized = dict(tensors)
    for name, axis, spec in dynamic_axes:
        size = spec.plus + sum(size_of(*parts[part]) for part, _ in spec.parts) if spec.parts \
            else size_of(spec, tensors[name].shape[axis])
        resized[name] = stretched(resized[name], axis, size)
    return resized


def stretched(tensor: torch.Tensor, axis: int, size: int) -> torch.Tensor:
    """Repeats the tensor's own elements along an axis, so that indices and masks stay valid."""
    if tensor.shape[axis] == 0:
        return tensor.new_zeros([size if each == axis else length for each, length in enumerate(tensor.shape)])
    return tensor.index_select(axis, torch.arange(size, device=tensor.device) % tensor.shape[axis])
