"""Reads and checks PyTorch's ``dynamic_axes`` and ``dynamic_shapes``: input axes that may differ at run time.

PyTorch ignores some mistakes or only warns about them. This module raises WhenceError E0104 with a remedy for names
that are not inputs, axes out of range, negative axes, repeated axes, and shapes that are not nested like the inputs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..arguments import caches, trees
from ..arguments.calls import Call
from ..errors import WhenceError, error


@dataclass(frozen=True)
class Axis:
    """A dynamic axis, with its name or torch.export's Dim or hint if the user gave one.

    Axes in dynamic_axes are optional: if the model does not honour one, torch.onnx.export drops it. Axes in
    dynamic_shapes are required.
    """

    name: str | None = None
    dim: Any = None
    optional: bool = False          # fixed if the model requires it
    proposed: bool = False          # proposed by whence; fixed if the export is wrong for other sizes
    parts: tuple[tuple[str, int], ...] = ()  # of a sum of two axes: their names and example sizes
    plus: int = 0                   # a constant added to the parts
    smallest: int | None = None     # a size to try because models often branch on it

    @property
    def command_name(self) -> str:
        """Returns the name in the command's syntax. The command parses sizes such as 2*batch and past+sequence; other
        names that are not identifiers are quoted."""
        if self.parts:
            return self.name or ""
        return f"'{self.name}'" if self.dim is None and self.name and not self.name.isidentifier() else self.name or ""

    @property
    def times(self) -> int:
        """Returns how much the axis grows if its root size grows by one: 2 for 2*batch."""
        return int(self.dim.fn(1)) - int(self.dim.fn(0)) if hasattr(self.dim, "fn") else 1

    @property
    def may_be_fixed(self) -> bool:
        """Returns true if the model may fix the axis: it is optional, or Dim.AUTO."""
        return self.optional or _is_hint(self.dim) and self.dim.type.name == "AUTO"

    def limited_to(self, dynamic_names: Collection[str]) -> Axis | None:
        """Returns the axis with all other sizes fixed, such as past+3 for past+sequence; None if no part is dynamic."""
        if not self.parts:
            return self
        remaining = tuple(part for part in self.parts if part[0] in dynamic_names)
        plus = self.plus + sum(size for part, size in self.parts if part not in dynamic_names)
        name = "+".join([*(part for part, _ in remaining), *([str(plus)] if plus else [])])
        return replace(self, name=name, parts=remaining, plus=plus) if remaining else None

    def for_torch_export(self) -> Any:
        import torch

        if self.dim is not None:
            return self.dim
        return torch.export.Dim.AUTO if self.optional else torch.export.Dim.DYNAMIC


Axes = dict[str, dict[int, Axis]]  # by tensor, by axis


def _refuse(message: str, remedy: str) -> WhenceError:
    return error("E0104", "input_mismatch", message, remedy)


def _checked_axis(what: str, axis: Any, rank: int, seen_axes: Mapping[int, Any]) -> int:
    if isinstance(axis, bool) or not isinstance(axis, int):
        raise _refuse(f"{what}: the axis {axis!r} is not an integer", "pass {0: 'batch'} or [0]")
    if not 0 <= axis < rank:
        fix = f"use axis {axis + rank}" if -rank <= axis < 0 else \
            f"use axes from 0 to {rank - 1}" if rank else "leave it out: a scalar has no axes"
        raise _refuse(f"{what} has no axis {axis}: its rank is {rank}", fix)
    if axis in seen_axes:
        raise _refuse(f"{what}: axis {axis} is specified twice", "specify it once")
    return axis


def _checked_name(what: str, name: str) -> str:
    if not re.fullmatch(r"[^',:\s]([^',:]*[^',:\s])?", name):
        raise _refuse(f"{what}: '{name}' cannot be the name of a size", "use a name without quotes, commas or colons")
    return name


def from_dynamic_axes(dynamic_axes: Mapping[str, Any] | None, call_tensors: Mapping[str, Any],
                      input_names: Sequence[str], output_names: Sequence[str]) -> Axes:
    """Reads ``{"x": {0: "batch"}}`` or ``{"x": [0]}``. Tensors are named as in ``input_names`` or in forward.

    Entries of outputs are skipped: sizes of outputs follow from the inputs.
    """
    tensors = {**{name: name for name in list(call_tensors)[len(input_names):]}, **dict(zip(input_names, call_tensors))}
    tensors = {**{name: name for name in call_tensors if name not in tensors}, **tensors}
    if not isinstance(dynamic_axes, (Mapping, type(None))):
        raise _refuse(f"dynamic_axes is a {type(dynamic_axes).__name__}", "pass {'x': {0: 'batch'}} or {'x': [0]}")
    axes: Axes = {}
    for name, entry in (dynamic_axes or {}).items():
        if name not in tensors:
            if name in output_names or caches.is_output(name):
                continue
            raise _refuse(f"dynamic_axes names '{name}', but forward has no such tensor",
                          f"its tensors are: {', '.join(tensors)}"
                          + ("" if output_names else "; for an output, add its name to output_names"))
        tensor_axes = axes.setdefault(tensors[name], {})
        rank = call_tensors[tensors[name]].dim()
        if isinstance(entry, Mapping):
            for axis, symbol in entry.items():
                checked = _checked_axis(f"'{name}'", axis, rank, tensor_axes)
                tensor_axes[checked] = Axis(_checked_name(f"'{name}'", symbol) if isinstance(symbol, str) else
                                    _name_of_dim(name, symbol), None if isinstance(symbol, str) else symbol, True)
        elif isinstance(entry, (list, tuple)):
            for number, axis in enumerate(entry, 1):
                tensor_axes[_checked_axis(f"'{name}'", axis, rank, tensor_axes)] = \
                    Axis(f"{name}_dynamic_axes_{number}", optional=True)
        elif entry is not None:
            raise _refuse(f"dynamic_axes of '{name}' is a {type(entry).__name__}", "pass {0: 'batch'} or [0]")
    return _with_sums(axes, call_tensors)


def _with_sums(axes: Axes, tensors: Mapping[str, Any]) -> Axes:
    """Converts names such as "past + sequence" to sums if other axes have the names of both parts."""
    sizes = {spec.name: tensors[name].shape[axis] for name, specs in axes.items() for axis, spec in specs.items()
             if spec.name and spec.dim is None}

    def parsed(spec: Axis) -> Axis:
        match = re.fullmatch(r"(\w+)\s*\+\s*(\w+)", spec.name or "") if spec.dim is None else None
        if match is None or not all(part in sizes and part.isidentifier() for part in match.groups()):
            return spec
        return replace(spec, name="+".join(match.groups()), parts=tuple((part, sizes[part]) for part in match.groups()))

    return {name: {axis: parsed(spec) for axis, spec in specs.items()} for name, specs in axes.items()}


def _is_hint(dim: Any) -> bool:
    return type(dim).__name__ == "_DimHint"  # the type of Dim.AUTO, which is private in PyTorch


def _derived_name(dim: Any) -> str | None:
    """Returns "2*batch+1" for torch.export's 2 * batch + 1; None if the size has another form."""
    plus, times = int(dim.fn(0)), int(dim.fn(1)) - int(dim.fn(0))
    if times < 1 or int(dim.fn(7)) != 7 * times + plus:
        return None
    root = dim.root.__name__
    return (root if times == 1 else f"{times}*{root}") + (f"{plus:+}" if plus else "")


def _name_of_dim(what: str, dim: Any) -> str | None:
    """Returns the name of a Dim, "2*batch" for a derived size; None for a hint."""
    if _is_hint(dim):
        return None
    if hasattr(dim, "root") and hasattr(dim, "fn"):
        return _derived_name(dim)
    name = getattr(dim, "__name__", None)
    if not isinstance(name, str):
        raise _refuse(f"{what}: {dim!r} is not a name of a size", "pass a string, a torch.export.Dim, or Dim.DYNAMIC")
    return name if name.isidentifier() else None


def _is_static(dim: Any) -> bool:
    return dim is None or isinstance(dim, int) or _is_hint(dim) and dim.type.name == "STATIC"


def _all_static(shape: Any) -> bool:
    if isinstance(shape, (list, tuple, Mapping)):
        return all(map(_all_static, shape.values() if isinstance(shape, Mapping) else shape))
    return _is_static(shape)


def _check_range(what: str, dim: Any, size: int) -> None:
    lowest, highest = (getattr(dim, bound, None) for bound in ("min", "max"))
    if isinstance(lowest, int) and size < lowest or isinstance(highest, int) and size > highest:
        raise _refuse(f"{what} is {size} in the example, outside the range of {dim}: {lowest} to {highest}",
                      "use an example within the range, or change the range")


def _axes_of_tensor(name: str, shape: Any, tensor: Any) -> dict[int, Axis]:
    if isinstance(shape, Mapping):
        pairs = list(shape.items())
    elif isinstance(shape, (list, tuple)):
        if len(shape) != tensor.dim():
            raise _refuse(f"dynamic_shapes of '{name}' has {len(shape)} sizes, but its rank is {tensor.dim()}",
                          "pass one size for each axis, None for a fixed one, or a dict by axis")
        pairs = list(enumerate(shape))
    else:
        raise _refuse(f"dynamic_shapes of '{name}' is a {type(shape).__name__}, but '{name}' is a tensor",
                      "pass {axis: Dim}, a sequence with one entry for each axis, or None")
    axes: dict[int, Axis] = {}
    for axis, dim in pairs:
        checked = _checked_axis(f"'{name}'", axis, tensor.dim(), axes)
        if isinstance(dim, int) and not isinstance(dim, bool) and dim != tensor.shape[checked]:
            raise _refuse(f"dynamic_shapes fixes axis {axis} of '{name}' at {dim}, but the example has "
                          f"{tensor.shape[axis]}", "use an example of that size, or None")
        if _is_static(dim):
            continue
        _check_range(f"axis {axis} of '{name}'", dim, tensor.shape[checked])
        axes[checked] = Axis(_checked_name(f"'{name}'", dim)) if isinstance(dim, str) else \
            Axis(_name_of_dim(f"'{name}'", dim), dim)
    return axes


def from_dynamic_shapes(dynamic_shapes: Any, call: Call) -> Axes:
    """Reads shapes nested like the arguments, by name or in forward's order. Omitted axes are fixed."""
    axes: Axes = {}
    prefixes = {path[:at] for path in call.names for at in range(len(path) + 1)}

    def set_axes(shape: Any, name: str) -> None:
        if name in call.tensors:
            if shape is not None:
                axes[name] = _axes_of_tensor(name, shape, call.tensors[name])
        elif not _all_static(shape):
            raise _refuse(f"'{name}' is a {type(call.constants[name]).__name__}, which is fixed in the file, but "
                          "dynamic_shapes makes it dynamic",
                          "pass it as a tensor, torch.tensor(3), or set it to None in dynamic_shapes")

    def walk_cache(shape: Any, names: Any, what: str) -> None:
        if isinstance(names, str):
            return set_axes(shape, names)
        for key, child in names.items():
            walk_cache(_part(shape, key, list(names.items()), what), child, f"{what}[{key!r}]")

    def walk(shape: Any, value: Any, path: trees.Path, what: str) -> None:
        if path in call.names:
            set_axes(shape, call.names[path])
        elif caches.is_cache(value):
            names = {leaf[len(path):]: name for leaf, name in call.names.items()
                     if leaf[:len(path)] == path and name in call.tensors}
            walk_cache(caches.shapes_by_layer(shape), caches.names_by_layer(names), what)
        elif path in prefixes:
            children = trees.container_of(value).children
            for key, child in children:
                walk(_part(shape, key, children, what), child, (*path, key), f"{what}[{key!r}]")

    arguments = call.arguments
    if isinstance(dynamic_shapes, (list, tuple)):
        if len(dynamic_shapes) > len(arguments):
            raise _refuse(f"dynamic_shapes has {len(dynamic_shapes)} entries, but the call has {len(arguments)} "
                          "arguments", f"the arguments are: {', '.join(arguments)}")
        dynamic_shapes = dict(zip(arguments, dynamic_shapes))
    elif not isinstance(dynamic_shapes, Mapping):
        raise _refuse(f"dynamic_shapes is a {type(dynamic_shapes).__name__}", "pass a dict by argument, or a tuple")
    dynamic_shapes = _with_keywords(dynamic_shapes, call)
    unknown = [name for name in dynamic_shapes if name not in arguments]
    if unknown:
        raise _refuse(f"dynamic_shapes names '{unknown[0]}', but the call has no such argument",
                      f"the arguments are: {', '.join(arguments)}")
    for name, value in arguments.items():
        walk(dynamic_shapes.get(name), value, (name,), name)
    return _with_sums({name: specs for name, specs in axes.items() if specs}, call.tensors)


def _with_keywords(shapes: Mapping[str, Any], call: Call) -> dict[str, Any]:
    """Moves shapes of forward's **kwargs to the top level. torch.export also accepts them below that parameter."""
    flat = dict(shapes)
    for name, parameter in call.signature.parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD and name not in call.arguments:
            flat |= flat.pop(name, None) or {}
    return flat


def _part(shape: Any, key: Any, children: list[Any], what: str) -> Any:
    """Returns the part of a container's shapes that belongs to one child."""
    if shape is None:
        return None
    keys = [each for each, _ in children]
    if isinstance(shape, Mapping) and not all(isinstance(each, int) for each in keys):
        unknown = [each for each in shape if each not in keys]
        if unknown:
            raise _refuse(f"dynamic_shapes of '{what}' names {unknown[0]!r}, but '{what}' has no such element",
                          f"its elements are: {', '.join(map(str, keys))}")
        return shape.get(key)
    if isinstance(shape, (list, tuple)):
        if len(shape) != len(keys):
            raise _refuse(f"dynamic_shapes of '{what}' has {len(shape)} entries, but '{what}' has {len(keys)}",
                          "nest it like the argument")
        return shape[keys.index(key)]
    raise _refuse(f"dynamic_shapes of '{what}' is a {type(shape).__name__}, but '{what}' contains several values",
                  "nest it like the argument")


def check_outputs(dynamic_axes: Mapping[str, Any] | None, dims_of: Mapping[str, Sequence[Any]],
                  output_names: Sequence[str]) -> list[str]:
    """Returns a message for each axis of an output whose size differs from the requested one."""
    messages = []
    for name, requested in (dynamic_axes or {}).items():
        if name not in dims_of or name not in output_names and not caches.is_output(name):
            continue
        symbols = dict(requested) if isinstance(requested, Mapping) else {axis: None for axis in requested or ()}
        for axis, symbol in symbols.items():
            _checked_axis(f"the output '{name}'", axis, len(dims_of[name]), {})
            actual = dims_of[name][axis]
            if symbol is None and isinstance(actual, str) or actual == symbol:
                continue
            messages.append(f"axis {axis} of the output '{name}' is {actual if actual is not None else 'a size'}, "
                        "which follows from the inputs")
    return messages

