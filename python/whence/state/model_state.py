"""Saves and restores the state of a model: an export runs the caller's model and must leave it unchanged.

The state is everything reachable from the model (``reachable_values``): parameters, buffers and tensors in attributes,
with their contents; gradients and requires_grad; modes, hooks and other attributes of all modules; lists, dicts, sets
and objects; attributes of the modules' classes; and the random number generators. All tensors are copied, so that
changes made by a run can be reported.
"""

from __future__ import annotations

import collections
import random
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from ..errors import error
from .reachable_values import ClassAttributes, NUMBERS, Slots, reachable

_snapshots: ContextVar[tuple[Snapshot, ...]] = ContextVar("snapshots", default=())


@contextmanager
def state_restored(model: Any, parameters: bool = True) -> Iterator[None]:
    """Restores the model and the random number generators after the block, even after an error. If ``parameters`` is
    false, the contents of parameters are not copied, so writes to them stay.

    An inner block for the same model saves nothing. Its end restores the snapshots of all enclosing blocks.
    """
    snapshots = _snapshots.get()
    if any(outer.model is model for outer in snapshots):
        try:
            yield
        finally:
            for outer in snapshots:
                outer.restore()
        return
    snapshot = Snapshot(model, parameters)
    token = _snapshots.set((*snapshots, snapshot))
    try:
        yield
    finally:
        _snapshots.reset(token)
        for each in (*snapshots, snapshot):
            each.restore()


def changes() -> list[Change]:
    """Returns the changes since the snapshots of all enclosing blocks. Leaves out random number generators, gradients,
    and values that do not take part in computation."""
    return [change for snapshot in _snapshots.get() for change in snapshot.changes()]


def refuse_results_without_data(results: Iterable[torch.Tensor], model: Any, inputs: Iterable[torch.Tensor]) -> None:
    """Raises WhenceError E0207 if a call with real tensors returned a fake tensor: torch.export runs models on fake
    tensors and left one in state that cannot be restored."""
    if any(map(_is_fake, results)) and not any(map(_is_fake, (*inputs, *(value for _, value in reachable(model))))):
        raise error("E0207", "run_failed", "the model returns a tensor without data: torch.export left one in "
                    "state that cannot be restored, such as a global, an iterator or a context variable",
                    "recreate the model and that state, or keep it in the model's attributes, which are restored")


@dataclass(frozen=True)
class Change:
    """A change made by a run: new contents of a tensor, or another value under the name."""

    name: str
    in_place: bool
    registered: bool             # a parameter or buffer
    others: tuple[str, ...] = ()  # names of changed tensors that share its memory


class Snapshot:
    """The values reachable from a model, with their contents at this time."""

    def __init__(self, model: Any, parameters: bool = True) -> None:
        self.model = model
        self._parameters = parameters
        self._undo: list[Callable[[], None]] = [partial(put, get()) for get, put in _generators()]
        self._contents: dict[int, _Content] = {}
        self._before: dict[str, Any] = {}  # tensors and numbers
        self._views: dict[int, torch.Tensor] = {}  # by tensor id: a second tensor with the same memory and shape
        self._classes: list[type] = []
        for name, value in reachable(model):
            if name is not None and isinstance(value, (torch.Tensor, *NUMBERS)):
                self._before.setdefault(name, value)
            self._save(value)

    def restore(self) -> None:
        with torch.no_grad():
            for undo in self._undo:
                undo()
            for content in self._contents.values():
                content.restore()

    def changes(self) -> list[Change]:
        now: dict[str, Any] = {}
        for name, value in reachable(self.model, self._classes):
            if name is not None and isinstance(value, (torch.Tensor, *NUMBERS)):
                now.setdefault(name, value)
        rewritten = {pointer for pointer, content in self._contents.items() if content.differs()}
        in_place: dict[Any, list[str]] = {}  # by the address of the changed memory
        reassigned: list[str] = []
        for name in dict.fromkeys([*self._before, *now]):
            before, value = self._before.get(name, _ABSENT), now.get(name, _ABSENT)
            if before is value and isinstance(value, torch.Tensor):
                if self._is_rewritten(value, rewritten):
                    in_place.setdefault(_pointer(self._views.get(id(value), value)), []).append(name)
            elif not self._same(before, value):
                reassigned.append(name)
        registered = _registered(self.model)
        changes = []
        for names in in_place.values():
            names.sort(key=lambda name: name not in registered)  # parameters and buffers first; stable
            changes.append(Change(names[0], True, names[0] in registered, tuple(names[1:])))
        return changes + [Change(name, False, name in registered) for name in reassigned
                          if not _is_within(name, reassigned)]

    def _is_rewritten(self, tensor: torch.Tensor, rewritten: set[int]) -> bool:
        view = self._views.get(id(tensor))
        if view is None:
            return False
        moved = not _same_view(tensor, view)
        return (moved or _pointer(view) in rewritten) and not _equal(self._content(view), tensor)

    def _same(self, before: Any, value: Any) -> bool:
        if isinstance(before, torch.Tensor) and isinstance(value, torch.Tensor):
            return _equal(self._content(self._views.get(id(before), before)), value)
        if isinstance(before, torch.Tensor) or isinstance(value, torch.Tensor):
            return False
        return type(before) is type(value) and (before == value or before != before and value != value)

    def _content(self, view: torch.Tensor) -> torch.Tensor:
        """Returns the tensor with its contents before the run."""
        content = self._contents.get(_pointer(view))
        if content is None or view.is_quantized:
            return view
        restored = torch.empty(0, dtype=view.dtype, device=view.device)
        return restored.set_(content.before, view.storage_offset(), view.size(), view.stride())

    def _save(self, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            if id(value) not in self._views:
                self._save_tensor(value)
        elif isinstance(value, torch.Generator):
            self._undo.append(partial(value.set_state, value.get_state()))
        elif isinstance(value, ClassAttributes):
            self._classes.append(value.owner)
            self._undo.append(_class_undo(value))
        elif (undo := _undo_of_items(value)) is not None:
            self._undo.append(undo)

    def _save_tensor(self, tensor: torch.Tensor) -> None:
        if _is_fake(tensor) or torch.nn.parameter.is_lazy(tensor):
            return
        if tensor.is_leaf:
            self._undo.append(_gradient_undo(tensor))
        if is_traceable_wrapper_subclass(tensor):
            return
        with suppress(NotImplementedError, RuntimeError):  # no data, or a layout with several storages
            storage, view = tensor.untyped_storage(), tensor.detach()
            self._undo.append(_view_undo(tensor, view))
            self._views[id(tensor)] = view
            if not self._parameters and isinstance(tensor, torch.nn.Parameter):
                return
            if storage.device.type != "meta" and storage.nbytes() and storage.data_ptr() not in self._contents:
                self._contents[storage.data_ptr()] = _Content(storage)


_ABSENT = object()


def _is_fake(value: Any) -> bool:
    return isinstance(value, torch._subclasses.FakeTensor)


def _pointer(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _same_view(tensor: torch.Tensor, view: torch.Tensor) -> bool:
    return tensor.data_ptr() == view.data_ptr() and tensor.shape == view.shape and tensor.stride() == view.stride()


def _equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.dtype != b.dtype or a.shape != b.shape or a.device != b.device:
        return False
    with suppress(NotImplementedError, RuntimeError):  # some dtypes and layouts do not support comparison
        return bool(((a == b) | ((a != a) & (b != b))).all())
    return False


def _registered(model: Any) -> set[str]:
    if isinstance(model, dict):  # modules among arguments, or the tensors of an exported program
        return {*model, *(f"{key}.{name}" for key, each in model.items() for name in _registered(each))}
    if not isinstance(model, torch.nn.Module):
        return set()
    return {name for name, _ in (*model.named_parameters(remove_duplicate=False),
                                 *model.named_buffers(remove_duplicate=False))}


def _is_within(name: str, names: list[str]) -> bool:
    return any(name.startswith((f"{each}.", f"{each}[")) for each in names)


def _class_undo(attributes: ClassAttributes) -> Callable[[], None]:
    """Returns a function that restores all class attributes, including methods."""
    before = attributes.values()

    def undo() -> None:
        now = attributes.values()
        for name in now.keys() - before.keys():
            delattr(attributes.owner, name)
        for name, value in before.items():
            if now.get(name, _ABSENT) is not value:
                setattr(attributes.owner, name, value)
    return undo


def _undo_of_items(value: Any) -> Callable[[], None] | None:
    if isinstance(value, Slots):
        return _slots_undo(value)
    if isinstance(value, dict):
        return _dict_undo(value)
    return _elements_undo(value) if isinstance(value, (list, set, collections.deque)) else None


def _dict_undo(value: dict[str, Any]) -> Callable[[], None]:
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
    required_grad, gradient = tensor.requires_grad, tensor.grad

    def undo() -> None:
        if tensor.requires_grad != required_grad:
            tensor.requires_grad_(required_grad)
        if tensor.grad is not gradient:
            tensor.grad = gradient
    return undo


def _slots_undo(slots: Slots) -> Callable[[], None]:
    before = slots.values()

    def undo() -> None:
        now = slots.values()
        for name in now.keys() - before.keys():
            object.__delattr__(slots.owner, name)
        for name, value in before.items():
            if now.get(name, _ABSENT) is not value:
                object.__setattr__(slots.owner, name, value)  # works for frozen objects too
    return undo


def _view_undo(tensor: torch.Tensor, view: torch.Tensor) -> Callable[[], None]:
    """Returns a function that restores the tensor's storage and shape after assignments to ``tensor.data``."""
    def undo() -> None:
        if not _same_view(tensor, view):
            tensor.data = view
    return undo


class _Content:
    """A copy of a storage, which several tensors may share. It is written back only if the storage changed, because the
    storage may be a mapped file."""

    def __init__(self, storage: torch.UntypedStorage) -> None:
        self.storage, self.before = storage, storage.clone()

    def differs(self) -> bool:
        same_size = self.storage.nbytes() == self.before.nbytes()
        return not same_size or not torch.equal(_bytes(self.storage), _bytes(self.before))

    def restore(self) -> None:
        if self.differs():
            self.storage.copy_(self.before)


def _bytes(storage: torch.UntypedStorage) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def _generators() -> Iterator[tuple[Callable[[], Any], Callable[[Any], None]]]:
    """Yields functions that get and set the states of the random number generators of PyTorch, Python and numpy."""
    yield torch.get_rng_state, torch.set_rng_state
    yield random.getstate, random.setstate
    if torch.cuda.is_initialized():
        yield torch.cuda.get_rng_state_all, torch.cuda.set_rng_state_all
    if "numpy" in sys.modules:
        yield sys.modules["numpy"].random.get_state, sys.modules["numpy"].random.set_state
