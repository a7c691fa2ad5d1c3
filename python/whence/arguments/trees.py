"""Nested values: the one place that knows how they are opened to their leaves, closed again, copied and named.

Opened are tuples, lists, dicts, what is registered with PyTorch's pytree, dataclasses, and any object that holds
tensors in its attributes, at any depth: a cache, a state. Leaves are named as torch.export names its inputs, so that
d["key"][0] is d_key_0; those of transformers' caches as ``caches`` says. A tensor that stands where it cannot be
reached, such as a closure or a set, is an error: it would be fixed in the file without a word.
"""

from __future__ import annotations

import contextlib
import copy
import enum
import functools
import gc
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ..errors import error
from . import caches

Path = tuple[Any, ...]  # the keys from the whole to a leaf
Close = Callable[[Iterator[Any]], Any]


@dataclass(frozen=True)
class Opened:
    """The children of a value by key, and what makes one like it of other children.

    An object is made in two steps, for it may hold itself: ``shell``, and ``build``, which fills that.
    """

    children: list[tuple[Any, Any]]
    build: Callable[..., Any]           # called with children; for an object, with the shell and children
    shell: Callable[[], Any] | None = None
    rest: Any = None                    # everything else it holds, which every copy of it shares


def opened(value: Any) -> Opened | None:
    """None for a leaf. What torch.export reads line by line, of plain containers, is what it understands."""
    if value is None or isinstance(value, (torch.Tensor, int, float, str)) or is_array(value):
        return None
    if isinstance(value, torch.Size):  # pytree makes a plain tuple of it
        return _sequence(value)
    if isinstance(value, (tuple, list, dict)) or not caches.is_cache(value):
        if pytree._get_node_type(value) in pytree.SUPPORTED_NODES:
            return _registered(value)
        if isinstance(value, Mapping):
            return _mapping(value)
        if isinstance(value, (list, tuple)):
            return _sequence(value)
    return _object(value)


def _registered(value: Any) -> Opened:
    node = pytree.SUPPORTED_NODES[pytree._get_node_type(value)]
    children, context = node.flatten_fn(value)
    keys = range(len(children))
    if node.flatten_with_keys_fn is not None:
        keys = [_key(entry) for entry, _ in node.flatten_with_keys_fn(value)[0]]
    return Opened(list(zip(keys, children)), lambda given: node.unflatten_fn(given, context), rest=context)


def _key(entry: Any) -> Any:
    for attribute in ("key", "idx", "name"):
        if hasattr(entry, attribute):
            return getattr(entry, attribute)
    return str(entry)


def _mapping(value: Mapping[Any, Any]) -> Opened:
    """A subclass of dict, such as a BatchEncoding. What cannot be written to becomes a dict."""
    def build(given: list[Any]) -> Any:
        other = _shell(value) if isinstance(value, MutableMapping) else {}
        for key, each in zip(value, given):
            other[key] = each
        return other

    return Opened(list(value.items()), build, rest=state_of(value))


def _sequence(value: list[Any] | tuple[Any, ...]) -> Opened:
    """A subclass of list or tuple, such as torch.Size."""
    def build(given: list[Any]) -> Any:
        if isinstance(value, tuple):
            return type(value)(given)
        other = _shell(value)
        if other is None:
            return given
        other[:] = given
        return other

    return Opened(list(enumerate(value)), build, rest=state_of(value))


# Types whose values have attributes but are leaves all the same: they are never taken apart.
_WHOLE = (type, enum.Enum, torch.nn.Module, torch.Generator, torch.SymInt, torch.SymFloat, torch.SymBool,
          types.ModuleType, types.FunctionType, types.MethodType, functools.partial, int, float, complex, str, bytes)


def _object(value: Any) -> Opened | None:
    state = {} if isinstance(value, _WHOLE) else state_of(value)
    if not state or _shell(value) is None:
        return None
    names = [name for name in state if not caches.is_fixed(value, name)]

    def build(shell: Any, given: list[Any]) -> Any:
        for name, each in zip(names, given):
            if name in getattr(shell, "__dict__", ()):
                shell.__dict__[name] = each
            else:
                object.__setattr__(shell, name, each)  # a slot, also of what is frozen
        return shell

    in_cache = caches.is_cache(value)
    return Opened([(caches.Key(name) if in_cache else name, state[name]) for name in names], build,
                  lambda: _shell(value))


def state_of(value: Any) -> dict[str, Any]:
    """Its attributes, in slots too."""
    slots = (name for kind in type(value).__mro__ for name in _names(kind.__dict__.get("__slots__", ())))
    return dict(getattr(value, "__dict__", {})) | {
        name: getattr(value, name) for name in slots if not name.startswith("__") and hasattr(value, name)}


def _names(slots: str | Iterable[str]) -> Iterable[str]:
    return (slots,) if isinstance(slots, str) else slots


def _shell(value: Any) -> Any:
    """Another object of its class with its attributes; None of what cannot be copied, or gives itself."""
    try:
        other = copy.copy(value)
    except Exception:  # any kind: a class decides for itself how it is copied
        return None
    return None if other is value else other


class _Walk:
    """From a value to its leaves. An object that occurs twice is one object in what is closed again."""

    def __init__(self, every_object: bool) -> None:
        self.leaves: list[tuple[Path, Any]] = []
        self.hidden: list[tuple[Path, Any]] = []  # values held beside the leaves
        self._every_object = every_object
        self._seen: dict[int, Any] = {}  # objects, which the dict keeps alive
        self._references = 0
        self._inside: list[int] = []

    def walk(self, value: Any, path: Path) -> Callable[[Iterator[Any], dict[int, Any]], Any]:
        """A function that rebuilds ``value`` from an iterator's leaves, and notes the objects that it made."""
        if id(value) in self._seen:
            self._references += 1
            return lambda given, made: made[id(value)]
        inside = opened(value)
        if inside is None:
            self.leaves.append((path, value))
            return lambda given, made: next(given)
        if inside.shell is not None:
            return self._object(value, inside, path)
        if id(value) in self._inside:
            raise error("E0104", "input_mismatch", f"'{_joined(path)}' holds itself", "give it without the cycle")
        self._inside.append(id(value))
        parts = [self.walk(child, (*path, key)) for key, child in inside.children]
        self._inside.pop()
        if inside.rest is not None:
            self.hidden.append((path, inside.rest))
        return lambda given, made: inside.build([part(given, made) for part in parts])

    def _object(self, value: Any, inside: Opened, path: Path) -> Callable[[Iterator[Any], dict[int, Any]], Any]:
        """One without tensors is a leaf, unless every object is to be opened."""
        first, seen, references = len(self.leaves), len(self._seen), self._references
        self._seen[id(value)] = value
        parts = [self.walk(child, (*path, key)) for key, child in inside.children]
        holds_tensors = any(isinstance(leaf, torch.Tensor) or is_array(leaf) for _, leaf in self.leaves[first:])
        if self._every_object or holds_tensors or self._references > references:
            def close(given: Iterator[Any], made: dict[int, Any]) -> Any:
                shell = made[id(value)] = inside.shell()
                return inside.build(shell, [part(given, made) for part in parts])
            return close
        del self.leaves[first:]
        self.leaves.append((path, value))
        while len(self._seen) > seen + 1:
            self._seen.popitem()

        def close_leaf(given: Iterator[Any], made: dict[int, Any]) -> Any:
            made[id(value)] = next(given)
            return made[id(value)]
        return close_leaf


def flatten(value: Any, every_object: bool = False) -> tuple[list[tuple[Path, Any]], Close]:
    """The leaves with their paths, and a function that closes the same around the leaves that an iterator gives."""
    walk = _Walk(every_object)
    close = walk.walk(value, ())
    return walk.leaves, lambda given: close(given, {})


def leaves(value: Any) -> list[Any]:
    return [leaf for _, leaf in flatten(value)[0]]


def is_array(value: Any) -> bool:
    """An array of numpy, which is taken where a tensor is."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def with_tensors(value: Any) -> Any:
    """The same with a tensor of the same content in the place of each array of numpy. Raises WhenceError E0104 for one of a
    dtype that PyTorch does not have."""
    found, close = flatten(value)
    if not any(is_array(leaf) for _, leaf in found):
        return value
    return close(iter([_tensor_of(leaf, path) if is_array(leaf) else leaf for path, leaf in found]))


def _tensor_of(array: Any, path: Path) -> torch.Tensor:
    try:
        # A copy in the machine's byte order: arrays may be read-only, or have negative strides, which no tensor has.
        return torch.from_numpy(array.astype(array.dtype.newbyteorder("="), order="C"))
    except TypeError:
        raise error("E0104", "input_mismatch", f"'{_joined(path)}' is a numpy array of {array.dtype}, which no tensor has",
                    "give a tensor, or an array of another dtype") from None


def copied(value: Any) -> Any:
    """The same with clones of its tensors, and other objects: a model may write to what it is given.

    What is one tensor in ``value``, or shares memory, is so in the copy.
    """
    found, close = flatten(value, every_object=True)
    return close(iter(_copied_leaves([leaf for _, leaf in found])))


def copied_apart(value: Any) -> Any:
    """The same, but each tensor has memory of its own, as the inputs of a file have: tracers know tensors by identity,
    and would take two inputs for one."""
    found, close = flatten(value, every_object=True)
    return close(iter([_copied_leaf(leaf) for _, leaf in found]))


def sharing(tensors: Iterable[torch.Tensor]) -> list[list[int]]:
    """Places of the tensors that share memory with others."""
    places: dict[int, list[int]] = {}
    for place, tensor in enumerate(tensors):
        storage = _storage(tensor)
        places.setdefault(id(tensor) if storage is None else storage.data_ptr(), []).append(place)
    return [each for each in places.values() if len(each) > 1]


def _storage(tensor: torch.Tensor) -> torch.UntypedStorage | None:
    """None where there is no plain memory that views could be made of."""
    plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout == torch.strided
    if not plain or tensor.is_quantized or tensor.device.type == "meta" or tensor.is_conj() or tensor.is_neg():
        return None
    with contextlib.suppress(NotImplementedError, RuntimeError):  # one without data, as torch.func's are
        storage = tensor.untyped_storage()
        return storage if storage.nbytes() else None
    return None


def _copied_leaves(found: list[Any]) -> list[Any]:
    tensors = [(place, leaf) for place, leaf in enumerate(found) if isinstance(leaf, torch.Tensor)]
    copies: dict[int, Any] = {}
    for group in sharing(leaf for _, leaf in tensors):
        storage = _storage(tensors[group[0]][1])
        memory = None if storage is None else storage.clone()
        known: dict[int, torch.Tensor] = {}
        for place, leaf in (tensors[each] for each in group):
            if id(leaf) not in known:
                known[id(leaf)] = _copied_leaf(leaf) if memory is None else _within(memory, leaf)
            copies[place] = known[id(leaf)]
    return [copies[place] if place in copies else _copied_leaf(leaf) for place, leaf in enumerate(found)]


def _within(memory: torch.UntypedStorage, tensor: torch.Tensor) -> torch.Tensor:
    """The same part of other memory."""
    empty = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    return empty.set_(memory, tensor.storage_offset(), tensor.size(), tensor.stride())


def _copied_leaf(leaf: Any) -> Any:
    """A copy of a leaf that can be changed in place, if it can be copied; else the leaf itself."""
    if isinstance(leaf, torch.Tensor):
        return leaf.detach().clone()
    if is_array(leaf):
        return leaf.copy()
    if isinstance(leaf, torch.Generator):
        return leaf.clone_state()
    other = _shell(leaf) if isinstance(leaf, (set, bytearray, Iterator)) else None
    return leaf if other is None else other


def without_classes(value: Any) -> Any:
    """The same with plain tuples in the place of named ones, and plain dicts."""
    if isinstance(value, Mapping):
        return {key: without_classes(each) for key, each in value.items()}
    if isinstance(value, (tuple, list)):
        return (tuple if isinstance(value, tuple) else list)(map(without_classes, value))
    return value


def tensors_in(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in leaves(value) if isinstance(leaf, torch.Tensor)]


def identifier(name: str) -> str:
    """The name of an input as tracers take it, which make a variable of it."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)


def named(paths: Iterable[Path]) -> list[str]:
    """A name for each path, unlike the others, also as an identifier."""
    names: dict[str, str] = {}
    for path in paths:
        name = base = _joined(path)
        number = 0
        while identifier(name) in names:
            number += 1
            name = f"{base}_{number}"
        names[identifier(name)] = name
    return list(names.values())


def _joined(path: Path) -> str:
    head = caches.head_of(path)
    name = "_".join(identifier(str(key)) for key in (path if head is None else head))
    return name if head is None else ".".join([name, *caches.words(path[len(head):])])


def refuse_hidden_tensors(arguments: dict[str, Any]) -> None:
    """Raises WhenceError E0104 where tensors stand beside the leaves: they would become constants."""
    walk = _Walk(every_object=False)
    walk.walk(arguments, ())
    known = {id(leaf) for _, leaf in walk.leaves}
    hidden = [(path, _hidden_in(leaf)) for path, leaf in walk.leaves if not isinstance(leaf, torch.Tensor)]
    hidden += [(path, [each for each in _hidden_in(held) if id(each) not in known]) for path, held in walk.hidden]
    for path, tensors in hidden:
        if not any(True for _ in tensors):
            continue
        place, kind = _joined(path), type(at(arguments, path))
        raise error("E0104", "input_mismatch",
                    f"'{place}' is a {kind.__module__}.{kind.__qualname__}, which holds tensors that cannot be reached",
                    "give them as tensors, in tuples, lists, dicts, dataclasses or attributes of objects, or register "
                    "the class with torch.utils._pytree.register_pytree_node")


def caches_in(value: Any) -> Iterator[Any]:
    """transformers' caches, those of an EncoderDecoderCache too."""
    seen: dict[int, Any] = {}  # which may hold each other
    open_ends = [value]
    while open_ends:
        value = open_ends.pop()
        if id(value) in seen or isinstance(value, (torch.Tensor, *_WHOLE)):
            continue
        seen[id(value)] = value
        if caches.is_cache(value):
            yield value
        inside = opened(value)
        open_ends += [child for _, child in inside.children] if inside else []


def at(value: Any, path: Path) -> Any:
    """The part of a value under a path."""
    for key in path:
        inside = opened(value)
        value = next(child for each, child in inside.children if each == key)
    return value


def _hidden_in(value: Any) -> Iterator[torch.Tensor]:
    """Tensors that Python can reach from it, but not through modules: what those hold is the model's."""
    seen: dict[int, Any] = {}
    open_ends = [value]
    while open_ends:
        value = open_ends.pop()
        if id(value) in seen or isinstance(value, (type, torch.nn.Module, types.ModuleType, types.CodeType, str)):
            continue
        seen[id(value)] = value
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, types.FunctionType):  # without what stands around it in its file
            open_ends += [value.__closure__, value.__defaults__, value.__kwdefaults__, value.__dict__]
        else:
            open_ends += gc.get_referents(value)
