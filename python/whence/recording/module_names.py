"""Reports the qualified names of the modules that torch.onnx.export(dynamo=False) calls while a recording runs.

The exporter's trace contains only the last part of a name: ``inner`` for ``a.inner``. If a method of ``a`` that the
trace does not show calls a module without parameters, the trace cannot distinguish that module from a child of the
caller.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from ..arguments.hidden_frames import leave_out_of_stacks


@contextmanager
def reporting_names() -> Iterator[None]:
    """Reports the name of each module to the plugin before PyTorch opens its scope in the trace.

    ``_slow_forward`` opens the scope. A forward hook would be too early if a hook of the module calls another module.
    In a PyTorch without ``_slow_forward``, the plugin infers names from the tensors that a call reads.
    """
    original = getattr(torch.nn.Module, "_slow_forward", None)
    if original is None:
        yield
        return
    names: weakref.WeakKeyDictionary[torch.nn.Module, dict[torch.nn.Module, str]] = weakref.WeakKeyDictionary()

    @functools.wraps(original)
    def reporting(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        scopes = getattr(torch.jit._trace, "_trace_module_map", None)
        scope = scopes.get(module) if scopes and torch._C._get_tracing_state() is not None else None
        if scope and "::" in scope and not isinstance(module.forward, torch._C.ScriptMethod):
            root = next(iter(scopes))  # the exporter lists named_modules(), which begins with the model
            if root not in names:
                names[root] = {each: name for name, each in root.named_modules()}
            torch.ops.whence.name_call(names[root].get(module, ""))
        return original(module, *args, **kwargs)

    leave_out_of_stacks(reporting)
    torch.nn.Module._slow_forward = reporting
    try:
        yield
    finally:
        torch.nn.Module._slow_forward = original
