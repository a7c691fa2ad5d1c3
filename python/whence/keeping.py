"""What a model holds, as it was before: an export runs the caller's own model, and leaves no trace of that in it.

Kept is what can be reached from the model: parameters, buffers and tensors in attributes with their contents, whether
they require gradients, the gradients; the modes, hooks and other attributes of every module; lists, dicts, sets and
objects that it fills while it runs; and the generators of random numbers. One copy of all tensors is held meanwhile.
"""

from __future__ import annotations

import collections
import enum
import random
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from typing import Any

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

_held: ContextVar[tuple[_Snapshot, ...]] = ContextVar("held", default=())


@contextmanager
def kept(model: Any) -> Iterator[None]:
    """After the block, also after an error, the model and the generators of random numbers are as before.

    A block within one for the same model ends with the state that the outer one began with.
    """
    snapshots = _held.get()
    snapshot = next((each for each in snapshots if each.model is model), None)
    if snapshot is not None:
        try:
            yield
        finally:
            snapshot.restore()
        return
    snapshot = _Snapshot(model)
    token = _held.set((*snapshots, snapshot))
    try:
        yield
    finally:
        _held.reset(token)
        snapshot.restore()


# Objects of these libraries hold the process together, not what a model computes.
_OF_THE_PROCESS = frozenset({"asyncio", "concurrent", "logging", "multiprocessing", "threading", "torch"})

_NO_STATE = (type(None), type, enum.Enum, types.ModuleType, types.FunctionType, types.BuiltinFunctionType,
             types.MethodType, str, bytes, int, float, complex)


class _Snapshot:
    def __init__(self, model: Any) -> None:
        self.model = model
        self._undo: list[Callable[[], None]] = [partial(put, get()) for get, put in _generators()]
        self._storages: dict[int, Callable[[], None]] = {}
        seen: dict[int, Any] = {}
        to_visit = [model]
        while to_visit:  # not by recursion: a model may hold a chain of any length
            value = to_visit.pop()
            if id(value) not in seen and not isinstance(value, _NO_STATE):
                seen[id(value)] = value
                to_visit += self._keep(value)

    def restore(self) -> None:
        with torch.no_grad():
            for undo in (*self._undo, *self._storages.values()):
                undo()

    def _keep(self, value: Any) -> list[Any]:
        """Returns what the value holds."""
        if isinstance(value, torch.Tensor):
            return self._keep_tensor(value)
        if isinstance(value, torch.Generator):
            self._undo.append(partial(value.set_state, value.get_state()))
            return []
        if isinstance(value, tuple):
            return list(value)
        held: list[Any] = []
        if isinstance(value, dict):
            self._undo.append(_dict_undo(value))
            held += [*value.keys(), *value.values()]
        elif isinstance(value, (list, set, collections.deque)):
            self._undo.append(_elements_undo(value))
            held += value
        if isinstance(value, torch.nn.Module):
            return [*held, *_of_module(value)]
        of_the_process = any(kind.__module__.partition(".")[0] in _OF_THE_PROCESS for kind in type(value).__mro__)
        return held if of_the_process else [*held, getattr(value, "__dict__", None)]

    def _keep_tensor(self, tensor: torch.Tensor) -> list[Any]:
        if isinstance(tensor, torch._subclasses.FakeTensor) or torch.nn.parameter.is_lazy(tensor):
            return []
        if tensor.is_leaf:
            self._undo.append(_gradient_undo(tensor))
        if is_traceable_wrapper_subclass(tensor):
            return [getattr(tensor, name) for name in tensor.__tensor_flatten__()[0]]
        with suppress(NotImplementedError, RuntimeError):  # a layout without one storage, or one without data yet
            storage = tensor.untyped_storage()
            self._undo.append(_place_undo(tensor))
            if storage.device.type != "meta" and storage.nbytes():
                self._storages.setdefault(storage.data_ptr(), _content_undo(storage))
        return [tensor.grad] if tensor.is_leaf and tensor.grad is not None else []


def _of_module(module: torch.nn.Module) -> list[Any]:
    """A scripted one has its parameters in no attribute. One that is uninitialised is another class after a call."""
    if isinstance(module, torch.nn.modules.lazy.LazyModuleMixin) and module.has_uninitialized_params():
        return []
    return [*module.parameters(recurse=False), *module.buffers(recurse=False), module.__dict__]


def _dict_undo(value: dict) -> Callable[[], None]:
    before = list(value.items())

    def undo() -> None:
        if len(value) != len(before) or any(a is not c or b is not d for (a, b), (c, d) in zip(value.items(), before)):
            value.clear()
            value.update(before)
    return undo


def _elements_undo(value: Any) -> Callable[[], None]:
    before = list(value)

    def undo() -> None:
        if len(value) != len(before) or any(a is not b for a, b in zip(value, before)):
            value.clear()
            (value.update if isinstance(value, set) else value.extend)(before)
    return undo


def _gradient_undo(tensor: torch.Tensor) -> Callable[[], None]:
    wanted, gradient = tensor.requires_grad, tensor.grad

    def undo() -> None:
        if tensor.requires_grad != wanted:
            tensor.requires_grad_(wanted)
        if tensor.grad is not gradient:
            tensor.grad = gradient
    return undo


def _place_undo(tensor: torch.Tensor) -> Callable[[], None]:
    """Its storage and shape, which assignments to ``tensor.data`` change."""
    before = tensor.detach()

    def undo() -> None:
        if tensor.data_ptr() != before.data_ptr() or tensor.shape != before.shape or tensor.stride() != before.stride():
            tensor.data = before
    return undo


def _content_undo(storage: torch.UntypedStorage) -> Callable[[], None]:
    """What stands in it, whichever tensors share it. Written only where it differs, for it may be a file's pages."""
    before = storage.clone()

    def undo() -> None:
        if storage.nbytes() != before.nbytes() or not torch.equal(_bytes(storage), _bytes(before)):
            storage.copy_(before)
    return undo


def _bytes(storage: torch.UntypedStorage) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def _generators() -> Iterator[tuple[Callable[[], Any], Callable[[Any], None]]]:
    """How the states of those of PyTorch, Python and numpy are read and set."""
    yield torch.get_rng_state, torch.set_rng_state
    yield random.getstate, random.setstate
    if torch.cuda.is_initialized():
        yield torch.cuda.get_rng_state_all, torch.cuda.set_rng_state_all
    if "numpy" in sys.modules:
        yield sys.modules["numpy"].random.get_state, sys.modules["numpy"].random.set_state
