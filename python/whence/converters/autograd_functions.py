"""Exports torch.autograd.Function: inlines it, so that its forward is exported, or keeps it as its own operator.

A tracer records a call of the function as a Python call, which archives cannot contain. Inside ``inlined``,
``apply`` runs the forward directly. Inside ``functions_kept_as_operators``, it calls an operator
``whence_autograd::Name``, which torch.export records and for which the user provides a translation.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch

from ..errors import error

NAMESPACE = "whence_autograd"
_KINDS = ((torch.Tensor, "Tensor"), (bool, "bool"), (int, "int"), (float, "float"), (str, "str"))

_library: list[torch.library.Library] = []
_operators: dict[tuple[type, str], Callable[..., Any]] = {}


def is_function(kind: type) -> bool:
    return issubclass(kind, torch.autograd.Function)


def operator_of(function: type) -> str:
    """Returns "whence_autograd::Name", the operator of a kept function."""
    return f"{NAMESPACE}::{function.__name__}"


def _forward(function: type, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Returns the result of ``apply``, without storing values for the backward pass."""
    base = torch.autograd.function._SingleLevelFunction
    if function.setup_context is not base.setup_context:
        return function.forward(*arguments, **keywords)
    context = torch.autograd.function.FunctionCtx()
    context.needs_input_grad = tuple(False for _ in arguments)
    return function.forward(context, *arguments, **keywords)


class _Replacements(threading.local):
    """The functions that replace ``apply`` in this thread, innermost last. Other threads keep ``apply``."""

    lock = threading.Lock()
    threads = 0

    def __init__(self):
        self.stack: list[Callable[[type, tuple[Any, ...], dict[str, Any]], Any]] = []


_replacements = _Replacements()


def _apply(function: type, *args: Any, **keywords: Any) -> Any:
    if _replacements.stack:
        return _replacements.stack[-1](function, args, keywords)
    return super(torch.autograd.function._SingleLevelFunction, function).apply(*args, **keywords)


@contextmanager
def _apply_replaced(replacement: Callable[[type, tuple[Any, ...], dict[str, Any]], Any]) -> Iterator[None]:
    # Replaces the base class's apply, because a model may already store a bound one: self.clip = Clip.apply.
    base = torch.autograd.function._SingleLevelFunction
    with _Replacements.lock:
        _Replacements.threads += 1
        base.apply = classmethod(_apply)
    _replacements.stack.append(replacement)
    try:
        yield
    finally:
        _replacements.stack.pop()
        with _Replacements.lock:
            _Replacements.threads -= 1
            if _Replacements.threads == 0:
                del base.apply


def inlined() -> AbstractContextManager[None]:
    return _apply_replaced(_forward)


@contextmanager
def functions_kept_as_operators(run: Callable[[], Any]) -> Iterator[None]:
    """Makes functions call operators inside the block. ``run`` calls the model once, to record the types of arguments
    and results of each function.

    Raises WhenceError E0303 for arguments that operators cannot have.
    """
    operators: dict[type, Callable[..., Any]] = {}

    def record(function: type, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        results = _forward(function, args, keywords)
        operators[function] = _operator(function, args, keywords, results)
        return results

    with torch.no_grad(), _apply_replaced(record):
        run()
    with _apply_replaced(lambda function, args, _: operators[function](*args)):
        yield


def _operator(function: type, arguments: tuple[Any, ...], keywords: dict[str, Any], results: Any) -> Callable[..., Any]:
    if keywords:
        raise error("E0303", "unsupported_feature", f"{function.__name__} is called with keyword arguments",
                    "call apply with positional arguments, or export with autograd_inlining=True")
    returned = "Tensor" if isinstance(results, torch.Tensor) else f"({', '.join('Tensor' for _ in results)})"
    schema = f"{function.__name__}({_parameters(function, arguments)}) -> {returned}"
    if (function, schema) not in _operators:
        if any(other.__name__ == function.__name__ for other, _ in _operators):
            raise error("E0303", "unsupported_feature",
                        f"two functions are called {function.__name__}, or one takes different kinds of arguments",
                        "use a unique name for each, or export with autograd_inlining=True")
        if not _library:
            _library.append(torch.library.Library(NAMESPACE, "DEF"))
        _library[0].define(schema)
        _library[0].impl(function.__name__, lambda *args: _forward(function, args, {}), "CompositeExplicitAutograd")
        _operators[function, schema] = getattr(getattr(torch.ops, NAMESPACE), function.__name__)
    return _operators[function, schema]


def _parameters(function: type, arguments: tuple[Any, ...]) -> str:
    with_context = function.setup_context is torch.autograd.function._SingleLevelFunction.setup_context
    names = list(inspect.signature(function.forward).parameters)[1 if with_context else 0:]
    declarations = []
    for name, value in zip(names, arguments):
        kind = next((text for kind, text in _KINDS if isinstance(value, kind)), None)
        if kind is None:
            raise error("E0303", "unsupported_feature",
                        f"{function.__name__} takes a {type(value).__name__}, but operators cannot",
                        "export with autograd_inlining=True")
        declarations.append(f"{kind} {name}")
    return ", ".join(declarations)
