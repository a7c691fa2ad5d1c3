"""Sees the operations of a run: live, scripted and exported models alike give them to PyTorch's dispatcher."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode

# Autograd takes an operator such as aten::linear apart before a mode sees it. Its keys alone are left out: the one below
# them counts writes to tensors.
_AUTOGRAD = torch._C.DispatchKeySet(torch._C.DispatchKey.AutogradCPU)

Returned = Callable[[str, Any, bool], None]  # the operator, what it returned, and whether it wrote to an argument


@contextmanager
def seen(returned: Returned) -> Iterator[None]:
    """Inside the block ``returned`` is called after each ATen operator, not after those that it consists of. No gradient
    can be computed of what the block computes."""
    with torch._C._ExcludeDispatchKeyGuard(_AUTOGRAD), torch.jit.optimized_execution(False), _Mode(returned):
        yield


class _Mode(TorchDispatchMode):
    supports_higher_order_operators = True

    def __init__(self, returned: Returned) -> None:
        super().__init__()
        self._returned = returned

    def __torch_dispatch__(self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        if isinstance(function, HigherOrderOperator):  # it runs functions, whose operations count
            return function(*map(self._inside, args), **{name: self._inside(each) for name, each in (kwargs or {}).items()})
        result = function(*args, **(kwargs or {}))
        self._returned(function._schema.name, result, function._schema.is_mutable)
        return result

    def _inside(self, argument: Any) -> Any:
        if not callable(argument) or isinstance(argument, torch.Tensor):
            return argument

        def run(*args: Any, **kwargs: Any) -> Any:
            with self:
                return argument(*args, **kwargs)

        return run
