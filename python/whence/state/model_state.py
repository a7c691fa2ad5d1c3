"""Restores what a model holds: an export runs the caller's own model, and leaves no trace of that in it.

Kept is what can be reached from the model (``reachable_values``): parameters, buffers and tensors in attributes with their
contents, whether they require gradients, the gradients; the modes, hooks and other attributes of every module; lists,
dicts, sets and objects that it fills while it runs; the attributes of the modules' classes; and the generators of random
numbers. One copy of all tensors is held meanwhile, so what a run changed can be said, too.
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
from .reachable_values import ClassAttributes, NUMBERS, Slots, reached

_held: ContextVar[tuple[Snapshot, ...]] = ContextVar("held", default=())


@contextmanager
def state_restored(model: Any, parameters: bool = True) -> Iterator[None]:
    """After the block, also after an error, the model and the generators of random numbers are as before. Without
    ``parameters`` no copy is held of what is in those: a block that writes to one leaves it changed.

    A block within one for the same model ends with the state that the outer one began with, and so does everything
    else that outer blocks hold.
    """
    snapshots = _held.get()
    if any(each.model is model for each in snapshots):
        try:
            yield
        finally:
            for each in snapshots:
                each.restore()
        return
    snapshot = Snapshot(model, parameters)
    token = _held.set((*snapshots, snapshot))
    try:
        yield
    finally:
        _held.reset(token)
        for each in (*snapshots, snapshot):
            each.restore()


def changes() -> list[Change]:
    """Differences from the snapshots of the blocks around this call, except for the generators of random numbers,
    gradients, and values that compute nothing."""
    return [change for each in _held.get() for change in each.changes()]


def refuse_results_without_data(results: Iterable[torch.Tensor], model: Any, inputs: Iterable[torch.Tensor]) -> None:
    """Raises WhenceError E0207 where a call with data returned tensors without: torch.export runs models on such
    tensors, and has left one in state that could not be put back."""
    if any(map(_is_fake, results)) and not any(map(_is_fake, (*inputs, *(value for _, value in reached(model))))):
        raise error("E0207", "run_failed", "the model returns a tensor without data: torch.export left one in what the "
                    "model keeps where it cannot be put back, as in a global, an iterator or a context variable",
                    "make the model and that state anew; state in the model's attributes is put back")


@dataclass(frozen=True)
class Change:
    """A change that a run left behind: another content of a tensor, or another value under the name."""

    name: str
    in_place: bool
    registered: bool             # a parameter or buffer
    others: tuple[str, ...] = ()  # names of tensors that share the memory, and changed with it


class Snapshot:
    """The values that can be reached from a model, with their present content."""

    def __init__(self, model: Any, parameters: bool = True) -> None:
        self.model = model
        self._parameters = parameters
        self._undo: list[Callable[[], None]] = [partial(put, get()) for get, put in _generators()]
        self._contents: dict[int, _Content] = {}
        self._before: dict[str, Any] = {}  # tensors and numbers
        self._places: dict[int, torch.Tensor] = {}  # by id of a tensor: another of the same memory and shape
        self._classes: list[type] = []
        for name, value in reached(model):
            if name is not None and isinstance(value, (torch.Tensor, *NUMBERS)):
                self._before.setdefault(name, value)
            self._keep(value)

    def restore(self) -> None:
        with torch.no_grad():
            for undo in self._undo:
                undo()
            for content in self._contents.values():
                content.restore()

    def changes(self) -> list[Change]:
        now: dict[str, Any] = {}
        for name, value in reached(self.model, self._classes):
            if name is not None and isinstance(value, (torch.Tensor, *NUMBERS)):
                now.setdefault(name, value)
        rewritten = {pointer for pointer, each in self._contents.items() if each.differs()}
        in_place: dict[Any, list[str]] = {}  # by the memory that was written to
        anew: list[str] = []
        for name in dict.fromkeys([*self._before, *now]):
            before, value = self._before.get(name, _ABSENT), now.get(name, _ABSENT)
            if before is value and isinstance(value, torch.Tensor):
                if self._is_rewritten(value, rewritten):
                    in_place.setdefault(_pointer(self._places.get(id(value), value)), []).append(name)
            elif not self._same(before, value):
                anew.append(name)
        registered = _registered(self.model)
        changes = []
        for names in in_place.values():
            names.sort(key=lambda name: name not in registered)  # a stable sort: parameters and buffers come first
            changes.append(Change(names[0], True, names[0] in registered, tuple(names[1:])))
        return changes + [Change(name, False, name in registered) for name in anew if not _is_within(name, anew)]

    def _is_rewritten(self, tensor: torch.Tensor, rewritten: set[int]) -> bool:
        place = self._places.get(id(tensor))
        if place is None:
            return False
        moved = not _same_place(tensor, place)
        return (moved or _pointer(place) in rewritten) and not _equal(self._content(place), tensor)

    def _same(self, before: Any, value: Any) -> bool:
        if isinstance(before, torch.Tensor) and isinstance(value, torch.Tensor):
            return _equal(self._content(self._places.get(id(before), before)), value)
        if isinstance(before, torch.Tensor) or isinstance(value, torch.Tensor):
            return False
        return type(before) is type(value) and (before == value or before != before and value != value)

    def _content(self, place: torch.Tensor) -> torch.Tensor:
        """The tensor's content before the run."""
        content = self._contents.get(_pointer(place))
        if content is None or place.is_quantized:
            return place
        other = torch.empty(0, dtype=place.dtype, device=place.device)
        return other.set_(content.before, place.storage_offset(), place.size(), place.stride())

    def _keep(self, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            if id(value) not in self._places:
                self._keep_tensor(value)
        elif isinstance(value, torch.Generator):
            self._undo.append(partial(value.set_state, value.get_state()))
        elif isinstance(value, ClassAttributes):
            self._classes.append(value.owner)
            self._undo.append(_class_undo(value))
        elif (undo := _undo_of_items(value)) is not None:
            self._undo.append(undo)

    def _keep_tensor(self, tensor: torch.Tensor) -> None:
        if _is_fake(tensor) or torch.nn.parameter.is_lazy(tensor):
            return
        if tensor.is_leaf:
            self._undo.append(_gradient_undo(tensor))
        if is_traceable_wrapper_subclass(tensor):
            return
        with suppress(NotImplementedError, RuntimeError):  # a layout without one storage, or one without data yet
            storage, place = tensor.untyped_storage(), tensor.detach()
            self._undo.append(_place_undo(tensor, place))
            self._places[id(tensor)] = place
            if not self._parameters and isinstance(tensor, torch.nn.Parameter):
                return
            if storage.device.type != "meta" and storage.nbytes() and storage.data_ptr() not in self._contents:
                self._contents[storage.data_ptr()] = _Content(storage)


_ABSENT = object()


def _is_fake(value: Any) -> bool:
    return isinstance(value, torch._subclasses.FakeTensor)


def _pointer(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _same_place(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    return tensor.data_ptr() == other.data_ptr() and tensor.shape == other.shape and tensor.stride() == other.stride()


def _equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.dtype != b.dtype or a.shape != b.shape or a.device != b.device:
        return False
    with suppress(NotImplementedError, RuntimeError):  # some dtypes and layouts cannot be compared
        return bool(((a == b) | ((a != a) & (b != b))).all())
    return False


def _registered(model: Any) -> set[str]:
    if isinstance(model, dict):  # modules among arguments, or what an exported program holds
        return {*model, *(f"{key}.{name}" for key, each in model.items() for name in _registered(each))}
    if not isinstance(model, torch.nn.Module):
        return set()
    return {name for name, _ in (*model.named_parameters(remove_duplicate=False),
                                 *model.named_buffers(remove_duplicate=False))}


def _is_within(name: str, names: list[str]) -> bool:
    return any(name.startswith((f"{each}.", f"{each}[")) for each in names)


def _class_undo(attributes: ClassAttributes) -> Callable[[], None]:
    """Restores all that was assigned, methods too."""
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
    wanted, gradient = tensor.requires_grad, tensor.grad

    def undo() -> None:
        if tensor.requires_grad != wanted:
            tensor.requires_grad_(wanted)
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
                object.__setattr__(slots.owner, name, value)  # also of what is frozen
    return undo


def _place_undo(tensor: torch.Tensor, place: torch.Tensor) -> Callable[[], None]:
    """Its storage and shape, which assignments to ``tensor.data`` change."""
    def undo() -> None:
        if not _same_place(tensor, place):
            tensor.data = place
    return undo


class _Content:
    """The content of a storage, whichever tensors share it. Written back only where it differs, for it may be a
    file's pages."""

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
    """Functions that read and set the states of those of PyTorch, Python and numpy."""
    yield torch.get_rng_state, torch.set_rng_state
    yield random.getstate, random.setstate
    if torch.cuda.is_initialized():
        yield torch.cuda.get_rng_state_all, torch.cuda.set_rng_state_all
    if "numpy" in sys.modules:
        yield sys.modules["numpy"].random.get_state, sys.modules["numpy"].random.set_state
