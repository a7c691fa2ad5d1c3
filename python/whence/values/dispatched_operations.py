"""Observes operations in PyTorch's dispatcher, through which live, scripted and exported models call them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode

# Autograd decomposes operators such as aten::linear before they reach a mode, so it is excluded. The dispatch key below
# it counts writes to tensors and must stay.
_AUTOGRAD = torch._C.DispatchKeySet(torch._C.DispatchKey.AutogradCPU)

Observer = Callable[[str, Any, bool], None]  # takes the operator, its result, and whether it wrote to an argument


@contextmanager
def observe(observer: Observer) -> Iterator[None]:
    """Calls ``observer`` after each ATen operator in the block, but not after the operators that it is composed of.
    The block records no gradients."""
    with torch._C._ExcludeDispatchKeyGuard(_AUTOGRAD), torch.jit.optimized_execution(False), _Mode(observer):
        yield


class _Mode(TorchDispatchMode):
    supports_higher_order_operators = True

    def __init__(self, observer: Observer) -> None:
        super().__init__()
        self._observer = observer

    def __torch_dispatch__(self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        if isinstance(function, HigherOrderOperator):  # observes the operations of the functions that it calls, too
            return function(*map(self._inside, args), **{name: self._inside(each) for name, each in (kwargs or {}).items()})
        result = function(*args, **(kwargs or {}))
        self._observer(function._schema.name, result, function._schema.is_mutable)
        return result

    def _inside(self, argument: Any) -> Any:
        if not callable(argument) or isinstance(argument, torch.Tensor):
            return argument

        def run(*args: Any, **kwargs: Any) -> Any:
            with self:
                return argument(*args, **kwargs)

        return run
