"""Captures a module with torch.export. Handles small sizes, the model's bounds on sizes, and models that need real
tensors instead of fake ones."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import free_symbols

from ..errors import WhenceWarning, error
from ..state.export_settings import log, quiet
from .comparisons import all_close, reproducible_outputs
from .other_inputs import stretched


def capture(model: torch.nn.Module, tensors: tuple[Any, ...], shapes: Any) -> Any:
    """Runs torch.export.export so that sizes 0 and 1 can be dynamic; warns of the model's bounds and applies them."""
    small = [dim for tensor, axes in zip(tensors, shapes) for axis, dim in (axes or {}).items()
             if tensor.shape[axis] < 2]
    if not small:
        return _with_bounds(model, tensors, shapes)
    try:
        with _small_sizes_may_be_dynamic():
            program = _with_bounds(model, tensors, shapes)
        _check_small(model, program, tensors, dynamic_axes_of(program, shapes))
    except Exception:  # PyTorch raises exceptions of any class if the model broadcasts a small axis
        if any(dim is not torch.export.Dim.AUTO for dim in small):
            raise
        return _with_bounds(model, tensors, shapes)  # torch.export fixes the small sizes
    return program


def _dynamic_sizes(program: Any, shapes: tuple[Any, ...]) -> list[dict[int, tuple[Any, Any]]]:
    """Returns {axis: (the user's Dim, its size in the program)} for each input, without the axes that torch.export
    fixed."""
    values = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    return [{axis: (dim, values[name].shape[axis]) for axis, dim in (axes or {}).items()
             if free_symbols(values[name].shape[axis])}
            for name, axes in zip(program.graph_signature.user_inputs, shapes)]


def dynamic_axes_of(program: Any, shapes: tuple[Any, ...]) -> tuple[Any, ...]:
    """Returns the shapes without the axes that torch.export fixed, which it may do for Dim.AUTO."""
    return tuple({axis: dim for axis, (dim, _) in axes.items()} for axes in _dynamic_sizes(program, shapes))


def bounds(program: Any, shapes: tuple[Any, ...]) -> list[tuple[str, int, str]]:
    """Returns dynamic axes for which the program has bounds: (input, axis, range).

    torch.export infers bounds from conditions on sizes. Omits bounds that the user's Dim already has.
    """
    bounded_axes = []
    for name, axes in zip(program.graph_signature.user_inputs, _dynamic_sizes(program, shapes)):
        for axis, (dim, size) in axes.items():
            if size.node.expr.is_Add:  # a sum has the bounds of its parts
                continue
            within = program.range_constraints.get(size.node.expr)
            lowest, highest = (None, None) if within is None else (_finite(within.lower), _finite(within.upper))
            user_min, user_max = getattr(dim, "min", None) or 2, getattr(dim, "max", None)
            if lowest is not None and lowest > user_min or highest is not None and highest != user_max:
                bounded_axes.append((name, axis, f"{lowest} or more" if highest is None else f"{lowest} to {highest}"))
    return bounded_axes


def _finite(bound: Any) -> int | None:
    return int(bound) if bound.is_Integer and int(bound) < 2**31 else None


def _with_bounds(model: torch.nn.Module, tensors: tuple[Any, ...], shapes: Any) -> Any:
    try:
        with quiet():
            return torch.export.export(model, tensors, dynamic_shapes=shapes)
    except Exception as failure:  # PyTorch and the model raise exceptions of any class
        bounded = _bounded(failure, shapes) if isinstance(failure, torch._dynamo.exc.UserError) else None
        if bounded is None:
            return _from_source(model, tensors, shapes, failure)
        warnings.warn(f"torch.export limits the dynamic sizes, and the file has the same limits: {bounded}",
                      WhenceWarning, stacklevel=7)
        return torch.export.export(model, tensors, dynamic_shapes=bounded)


def _from_source(model: torch.nn.Module, tensors: tuple[Any, ...], shapes: Any, failure: Exception) -> Any:
    """Exports a model that does not run on fake tensors, from its bytecode (strict=True).

    torch.onnx.export tries the two modes in the same order. If both fail, raises ``failure``, which names the
    model's line.
    """
    try:
        with quiet():
            program = torch.export.export(model, tensors, dynamic_shapes=shapes, strict=True)
    except Exception:
        raise failure from None
    log.info("torch.export(strict=False) fails, strict=True does not: %s", failure)
    return program


def _check_small(model: torch.nn.Module, program: Any, tensors: tuple[Any, ...], shapes: tuple[Any, ...]) -> None:
    """Raises WhenceError E0304 if the program differs from the model at the example's sizes or at larger ones."""
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    outputs = [each for each in map(values.get, program.graph_signature.user_outputs) if isinstance(each, torch.Tensor)]
    for inputs in tensors, _grown(tensors, shapes):
        try:
            expected, actual = (reproducible_outputs(model, run, inputs)
                                for run in (model, program.module(check_guards=False)))
            same = all_close(actual, expected)
        except Exception:  # one of the two does not run at these sizes
            same = False
        if not same or any(a.dim() != b.dim() for a, b in zip(outputs, expected)):
            raise error("E0304", "baked_size", "a dynamic size is 0 or 1 in the example, and the model behaves "
                        "differently at that size than at others", "use an example whose dynamic sizes are 2 or more")


def _grown(tensors: tuple[Any, ...], shapes: tuple[Any, ...]) -> tuple[Any, ...]:
    """Returns the tensors with dynamic sizes of 0 and 1 changed to 3."""
    larger = []
    for tensor, axes in zip(tensors, shapes):
        for axis in axes or ():
            if tensor.shape[axis] < 2:
                tensor = stretched(tensor, axis, 3)
        larger.append(tensor)
    return tuple(larger)


def _small_sizes_may_be_dynamic() -> Any:
    """Makes torch.export keep dynamic sizes that are 0 or 1 in the example; by default it fixes them."""
    settings = torch.fx.experimental._config
    return settings.patch(backed_size_oblivious=True) if hasattr(settings, "backed_size_oblivious") else nullcontext()


def _bounded(failure: Any, shapes: Any) -> Any:
    """Returns the shapes with bounds that PyTorch suggests; None if it suggests nothing, or suggests fixing a size."""
    try:
        refined = torch.export.dynamic_shapes.refine_dynamic_shapes_from_suggested_fixes(failure.msg, shapes)
    except Exception:  # PyTorch raises exceptions of any class if it finds no suggestion
        return None
    fixed = [dim for each in refined for dim in (each or {}).values() if dim is None or isinstance(dim, int)]
    return None if fixed else refined
