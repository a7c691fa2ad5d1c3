"""Makes a call of a model one that both of PyTorch's tracers accept: tensors in order, tensors out.

Keyword arguments, arguments that are no tensors (flags, None) and results that are dataclasses are everyday in
transformers, and neither tracer takes them as they are. The model's ``forward`` is replaced for the time of the trace
by one that takes the tensors alone. The module itself stays what it is, so no path of a submodule changes.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from .errors import error


def named_arguments(model: torch.nn.Module, args: Sequence[Any] | torch.Tensor,
                    kwargs: Mapping[str, Any] | None) -> dict:
    """The arguments of ``model.forward`` by their names, in the order of its signature."""
    positional = (args,) if isinstance(args, torch.Tensor) else tuple(args)
    try:
        bound = inspect.signature(model.forward).bind(*positional, **(kwargs or {}))
    except TypeError as failure:
        raise error("E0104", "input_mismatch", f"the arguments do not fit forward: {failure}",
                    "give them as forward takes them") from None
    named: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            named.update(value)
        elif kind is inspect.Parameter.VAR_POSITIONAL:
            named.update({f"{name}_{i}": item for i, item in enumerate(value)})
        else:
            named[name] = value
    return named


def plain(output: Any) -> Any:
    """A result as tracers take it: tensors, tuples of them, or a dict of tensors."""
    if dataclasses.is_dataclass(output) and not isinstance(output, dict):
        output = {each.name: getattr(output, each.name) for each in dataclasses.fields(output)}
    if isinstance(output, Mapping):
        kept = {key: plain(value) for key, value in output.items() if value is not None}
        return kept if all(isinstance(value, torch.Tensor) for value in kept.values()) else tuple(kept.values())
    if isinstance(output, (tuple, list)):
        return tuple(plain(value) for value in output if value is not None)
    return output


@contextmanager
def tensors_only(model: torch.nn.Module, args: Sequence[Any] | torch.Tensor,
                 kwargs: Mapping[str, Any] | None) -> Iterator[dict[str, torch.Tensor]]:
    """Inside the block ``model.forward`` takes the yielded tensors, by position or name, and nothing else."""
    named = named_arguments(model, args, kwargs)
    tensors = {name: value for name, value in named.items() if isinstance(value, torch.Tensor)}
    fixed = {name: value for name, value in named.items() if name not in tensors}
    if not tensors:
        raise error("E0104", "input_mismatch", "no argument is a tensor", "give at least one tensor in args or kwargs")
    original = model.forward
    signature = inspect.signature(original)
    variadic = any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in signature.parameters.values())

    def forward(*given, **by_name):
        values = {**fixed, **dict(zip(tensors, given)), **by_name}
        if variadic:
            return plain(original(*(values[name] for name in named)))
        return plain(original(**values))

    forward.__signature__ = inspect.Signature(
        [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in tensors])
    overridden = model.__dict__.get("forward")
    model.forward = forward
    try:
        yield tensors
    finally:
        if overridden is None:
            del model.forward
        else:
            model.forward = overridden


def trace(model: torch.nn.Module, tensors: Mapping[str, torch.Tensor]) -> torch.jit.ScriptModule:
    """torch.jit.trace inside ``tensors_only``."""
    with torch.no_grad():
        return torch.jit.trace(model, example_kwarg_inputs=dict(tensors), strict=False, check_trace=False)
