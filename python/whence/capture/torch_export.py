"""Captures a module by torch.export: small sizes, bounds that the model has, and models that run on data alone."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import free_symbols

from ..errors import WhenceWarning, error
from ..state.export_settings import log, quiet
from .comparisons import alike, computed
from .other_inputs import stretched


def captured(model: torch.nn.Module, tensors: tuple[Any, ...], shapes: Any) -> Any:
    """torch.export.export, for which 0 and 1 are sizes like others; bounds that the model has are told and taken."""
    small = [dim for tensor, axes in zip(tensors, shapes) for axis, dim in (axes or {}).items()
             if tensor.shape[axis] < 2]
    if not small:
        return _with_bounds(model, tensors, shapes)
    try:
        with _small_sizes_are_sizes():
            program = _with_bounds(model, tensors, shapes)
        _check_small(model, program, tensors, dynamic_axes_of(program, shapes))
    except Exception:  # PyTorch raises of every kind where the model broadcasts such an axis
        if any(dim is not torch.export.Dim.AUTO for dim in small):
            raise
        return _with_bounds(model, tensors, shapes)  # fixes them
    return program


def _open_sizes(program: Any, shapes: tuple[Any, ...]) -> list[dict[int, tuple[Any, Any]]]:
    """For each input {axis: (the user's Dim, its size in the program)}, where torch.export did not fix it."""
    values = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    return [{axis: (dim, values[name].shape[axis]) for axis, dim in (axes or {}).items()
             if free_symbols(values[name].shape[axis])}
            for name, axes in zip(program.graph_signature.user_inputs, shapes)]


def dynamic_axes_of(program: Any, shapes: tuple[Any, ...]) -> tuple[Any, ...]:
    """The shapes without the axes that torch.export fixed, as it may those of Dim.AUTO."""
    return tuple({axis: dim for axis, (dim, _) in axes.items()} for axes in _open_sizes(program, shapes))


def bounds(program: Any, shapes: tuple[Any, ...]) -> list[tuple[str, int, str]]:
    """The axes that torch.export left open but for which the program has bounds: (input, axis, range).

    It learns them from conditions on sizes. Bounds that the user's Dim has are not news.
    """
    found = []
    for name, axes in zip(program.graph_signature.user_inputs, _open_sizes(program, shapes)):
        for axis, (dim, size) in axes.items():
            if size.node.expr.is_Add:  # the bounds of a sum are those of its parts
                continue
            within = program.range_constraints.get(size.node.expr)
            least, most = (None, None) if within is None else (_finite(within.lower), _finite(within.upper))
            known_least, known_most = getattr(dim, "min", None) or 2, getattr(dim, "max", None)
            if least is not None and least > known_least or most is not None and most != known_most:
                found.append((name, axis, f"{least} or more" if most is None else f"{least} to {most}"))
    return found


def _finite(bound: Any) -> int | None:
    return int(bound) if bound.is_Integer and int(bound) < 2**31 else None


def _with_bounds(model: torch.nn.Module, tensors: tuple[Any, ...], shapes: Any) -> Any:
    try:
        with quiet():
            return torch.export.export(model, tensors, dynamic_shapes=shapes)
    except Exception as failure:  # PyTorch raises of every kind, and the model too
        bounded = _bounded(failure, shapes) if isinstance(failure, torch._dynamo.exc.UserError) else None
        if bounded is None:
            return _from_source(model, tensors, shapes, failure)
        warnings.warn(f"torch.export finds bounds of the dynamic sizes, which the file has: {bounded}", WhenceWarning,
                      stacklevel=7)
        return torch.export.export(model, tensors, dynamic_shapes=bounded)


def _from_source(model: torch.nn.Module, tensors: tuple[Any, ...], shapes: Any, failure: Exception) -> Any:
    """Exports the model's bytecode, for a model that does not run on tensors without data.

    torch.onnx.export tries the two in the same order. Raises ``failure`` where both fail: it names the model's line.
    """
    try:
        with quiet():
            program = torch.export.export(model, tensors, dynamic_shapes=shapes, strict=True)
    except Exception:
        raise failure from None
    log.info("torch.export(strict=False) fails, strict=True does not: %s", failure)
    return program


def _check_small(model: torch.nn.Module, program: Any, tensors: tuple[Any, ...], shapes: tuple[Any, ...]) -> None:
    """Raises WhenceError E0304 where the program is another than the model, at the example's sizes or larger ones."""
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    said = [each for each in map(values.get, program.graph_signature.user_outputs) if isinstance(each, torch.Tensor)]
    for given in tensors, _grown(tensors, shapes):
        try:
            wanted, found = (computed(model, run, given) for run in (model, program.module(check_guards=False)))
            same = alike(found, wanted)
        except Exception:  # one of the two does not run at these sizes
            same = False
        if not same or any(a.dim() != b.dim() for a, b in zip(said, wanted)):
            raise error("E0304", "baked_size", "a dynamic size is 0 or 1 in the example, and the model does something "
                        "else there than at other sizes", "give an example whose dynamic sizes are 2 or more")


def _grown(tensors: tuple[Any, ...], shapes: tuple[Any, ...]) -> tuple[Any, ...]:
    """The tensors with sizes of 3 in the place of dynamic sizes of 0 and 1."""
    larger = []
    for tensor, axes in zip(tensors, shapes):
        for axis in axes or ():
            if tensor.shape[axis] < 2:
                tensor = stretched(tensor, axis, 3)
        larger.append(tensor)
    return tuple(larger)


def _small_sizes_are_sizes() -> Any:
    """By itself torch.export fixes a dynamic size that is 0 or 1 in the example."""
    settings = torch.fx.experimental._config
    return settings.patch(backed_size_oblivious=True) if hasattr(settings, "backed_size_oblivious") else nullcontext()


def _bounded(failure: Any, shapes: Any) -> Any:
    """The shapes with the bounds that PyTorch suggests; None where it suggests nothing, or to fix a size."""
    try:
        refined = torch.export.dynamic_shapes.refine_dynamic_shapes_from_suggested_fixes(failure.msg, shapes)
    except Exception:  # PyTorch raises of every kind where there is nothing that it can read
        return None
    fixed = [dim for each in refined for dim in (each or {}).values() if dim is None or isinstance(dim, int)]
    return None if fixed else refined
