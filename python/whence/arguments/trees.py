"""Nested values: flattens them to their leaves, and rebuilds, copies and names them.

Containers are tuples, lists, dicts, classes registered with PyTorch's pytree, dataclasses, and any object that holds
tensors in its attributes at any depth, such as a cache or a state. Leaves are named as torch.export names its inputs:
d["key"][0] becomes d_key_0. ``caches`` names the leaves of transformers' caches. A tensor that cannot be reached, such
as one in a closure or a set, is an error: otherwise the file would silently fix it.
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

Path = tuple[Any, ...]  # the keys from the outermost value to a leaf
Rebuild = Callable[[Iterator[Any]], Any]


@dataclass(frozen=True)
class Container:
    """The children of a value by key, and functions that build an equivalent value from other children.

    An object is built in two steps, because it may refer to itself: ``shell`` creates it, ``build`` fills it.
    """

    children: list[tuple[Any, Any]]
    build: Callable[..., Any]           # called with children; for an object, with the shell and children
    shell: Callable[[], Any] | None = None
    rest: Any = None                    # other contents of the value, shared by all copies


def container_of(value: Any) -> Container | None:
    """Returns None for a leaf. torch.export traces this function and supports all its code for plain containers."""
    if value is None or isinstance(value, (torch.Tensor, int, float, str)) or is_array(value):
        return None
    if isinstance(value, torch.Size):  # pytree would rebuild it as a plain tuple
        return _sequence(value)
    if isinstance(value, (tuple, list, dict)) or not caches.is_cache(value):
        if pytree._get_node_type(value) in pytree.SUPPORTED_NODES:
            return _registered(value)
        if isinstance(value, Mapping):
            return _mapping(value)
        if isinstance(value, (list, tuple)):
            return _sequence(value)
    return _object(value)


def _registered(value: Any) -> Container:
    node = pytree.SUPPORTED_NODES[pytree._get_node_type(value)]
    children, context = node.flatten_fn(value)
    keys = range(len(children))
    if node.flatten_with_keys_fn is not None:
        keys = [_key(entry) for entry, _ in node.flatten_with_keys_fn(value)[0]]
    return Container(list(zip(keys, children)), lambda values: node.unflatten_fn(values, context), rest=context)


def _key(entry: Any) -> Any:
    for attribute in ("key", "idx", "name"):
        if hasattr(entry, attribute):
            return getattr(entry, attribute)
    return str(entry)


def _mapping(value: Mapping[Any, Any]) -> Container:
    """Accepts a subclass of dict, such as a BatchEncoding. An immutable mapping is rebuilt as a dict."""
    def build(children: list[Any]) -> Any:
        rebuilt = _shell(value) if isinstance(value, MutableMapping) else {}
        for key, child in zip(value, children):
            rebuilt[key] = child
        return rebuilt

    return Container(list(value.items()), build, rest=state_of(value))


def _sequence(value: list[Any] | tuple[Any, ...]) -> Container:
    """Accepts a subclass of list or tuple, such as torch.Size."""
    def build(children: list[Any]) -> Any:
        if isinstance(value, tuple):
            return type(value)(children)
        rebuilt = _shell(value)
        if rebuilt is None:
            return children
        rebuilt[:] = children
        return rebuilt

    return Container(list(enumerate(value)), build, rest=state_of(value))


# Types whose values are leaves although they have attributes.
_LEAF_TYPES = (type, enum.Enum, torch.nn.Module, torch.Generator, torch.SymInt, torch.SymFloat, torch.SymBool,
               types.ModuleType, types.FunctionType, types.MethodType, functools.partial, int, float, complex, str,
               bytes)


def _object(value: Any) -> Container | None:
    state = {} if isinstance(value, _LEAF_TYPES) else state_of(value)
    if not state or _shell(value) is None:
        return None
    names = [name for name in state if not caches.is_fixed(value, name)]

    def build(shell: Any, children: list[Any]) -> Any:
        for name, child in zip(names, children):
            if name in getattr(shell, "__dict__", ()):
                shell.__dict__[name] = child
            else:
                object.__setattr__(shell, name, child)  # a slot, even if the object is frozen
        return shell

    in_cache = caches.is_cache(value)
    return Container([(caches.Key(name) if in_cache else name, state[name]) for name in names], build,
                     lambda: _shell(value))


def state_of(value: Any) -> dict[str, Any]:
    """Returns the attributes of an object, including slots."""
    slots = (name for kind in type(value).__mro__ for name in _names(kind.__dict__.get("__slots__", ())))
    return dict(getattr(value, "__dict__", {})) | {
        name: getattr(value, name) for name in slots if not name.startswith("__") and hasattr(value, name)}


def _names(slots: str | Iterable[str]) -> Iterable[str]:
    return (slots,) if isinstance(slots, str) else slots


def _shell(value: Any) -> Any:
    """Returns a shallow copy of an object; None if it cannot be copied, or if copying returns the object itself."""
    try:
        shallow = copy.copy(value)
    except Exception:  # the class's copy method may raise any exception
        return None
    return None if shallow is value else shallow


class _Walk:
    """Walks from a value to its leaves. An object that occurs twice is rebuilt as one object."""

    def __init__(self, every_object: bool) -> None:
        self.leaves: list[tuple[Path, Any]] = []
        self.hidden: list[tuple[Path, Any]] = []  # contents of containers that are not leaves
        self._every_object = every_object
        self._seen: dict[int, Any] = {}  # objects, which the dict keeps alive
        self._references = 0
        self._inside: list[int] = []

    def walk(self, value: Any, path: Path) -> Callable[[Iterator[Any], dict[int, Any]], Any]:
        """Returns a function that rebuilds ``value`` from an iterator of leaves, and registers the objects it makes."""
        if id(value) in self._seen:
            self._references += 1
            return lambda leaves, objects: objects[id(value)]
        container = container_of(value)
        if container is None:
            self.leaves.append((path, value))
            return lambda leaves, objects: next(leaves)
        if container.shell is not None:
            return self._object(value, container, path)
        if id(value) in self._inside:
            raise error("E0104", "input_mismatch", f"'{_joined(path)}' contains itself", "pass it without the cycle")
        self._inside.append(id(value))
        parts = [self.walk(child, (*path, key)) for key, child in container.children]
        self._inside.pop()
        if container.rest is not None:
            self.hidden.append((path, container.rest))
        return lambda leaves, objects: container.build([part(leaves, objects) for part in parts])

    def _object(self, value: Any, container: Container, path: Path) -> Callable[[Iterator[Any], dict[int, Any]], Any]:
        """Walks an object. An object without tensors is a leaf, unless ``every_object`` is set."""
        leaf_count, object_count, references = len(self.leaves), len(self._seen), self._references
        self._seen[id(value)] = value
        parts = [self.walk(child, (*path, key)) for key, child in container.children]
        has_tensors = any(isinstance(leaf, torch.Tensor) or is_array(leaf) for _, leaf in self.leaves[leaf_count:])
        if self._every_object or has_tensors or self._references > references:
            def rebuild(leaves: Iterator[Any], objects: dict[int, Any]) -> Any:
                shell = objects[id(value)] = container.shell()
                return container.build(shell, [part(leaves, objects) for part in parts])
            return rebuild
        del self.leaves[leaf_count:]
        self.leaves.append((path, value))
        while len(self._seen) > object_count + 1:
            self._seen.popitem()

        def rebuild_leaf(leaves: Iterator[Any], objects: dict[int, Any]) -> Any:
            objects[id(value)] = next(leaves)
            return objects[id(value)]
        return rebuild_leaf


def flatten(value: Any, every_object: bool = False) -> tuple[list[tuple[Path, Any]], Rebuild]:
    """Returns the leaves with their paths, and a function that rebuilds the value from an iterator of leaves."""
    walk = _Walk(every_object)
    rebuild = walk.walk(value, ())
    return walk.leaves, lambda leaves: rebuild(leaves, {})


def leaves(value: Any) -> list[Any]:
    return [leaf for _, leaf in flatten(value)[0]]


def is_array(value: Any) -> bool:
    """Returns true for a numpy array, which is accepted in place of a tensor."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def with_tensors(value: Any) -> Any:
    """Returns the value with each numpy array converted to a tensor. Raises WhenceError E0104 for a dtype that PyTorch
    lacks."""
    items, rebuild = flatten(value)
    if not any(is_array(leaf) for _, leaf in items):
        return value
    return rebuild(iter([_tensor_of(leaf, path) if is_array(leaf) else leaf for path, leaf in items]))


def _tensor_of(array: Any, path: Path) -> torch.Tensor:
    try:
        # A copy in the machine's byte order: arrays may be read-only or have negative strides, unlike tensors.
        return torch.from_numpy(array.astype(array.dtype.newbyteorder("="), order="C"))
    except TypeError:
        raise error("E0104", "input_mismatch",
                    f"'{_joined(path)}' is a numpy array of {array.dtype}, which PyTorch lacks",
                    "pass a tensor, or an array of another dtype") from None


def copied(value: Any) -> Any:
    """Returns a copy with cloned tensors and new objects: a model may write to its arguments.

    Tensors that share memory in ``value`` also share memory in the copy.
    """
    items, rebuild = flatten(value, every_object=True)
    return rebuild(iter(_copied_leaves([leaf for _, leaf in items])))


def copied_apart(value: Any) -> Any:
    """Returns a copy in which each tensor has its own memory, like the inputs of a file. Tracers distinguish inputs by
    object identity, and would treat a tensor that is passed twice as one input."""
    items, rebuild = flatten(value, every_object=True)
    return rebuild(iter([_copied_leaf(leaf) for _, leaf in items]))


def sharing_memory(tensors: Iterable[torch.Tensor]) -> list[list[int]]:
    """Returns the positions of tensors that share memory, in groups."""
    groups: dict[int, list[int]] = {}
    for index, tensor in enumerate(tensors):
        storage = _storage(tensor)
        groups.setdefault(id(tensor) if storage is None else storage.data_ptr(), []).append(index)
    return [each for each in groups.values() if len(each) > 1]


def _storage(tensor: torch.Tensor) -> torch.UntypedStorage | None:
    """Returns the storage of a tensor; None if it does not support views."""
    is_plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout == torch.strided
    if not is_plain or tensor.is_quantized or tensor.device.type == "meta" or tensor.is_conj() or tensor.is_neg():
        return None
    with contextlib.suppress(NotImplementedError, RuntimeError):  # tensors of torch.func have no data
        storage = tensor.untyped_storage()
        return storage if storage.nbytes() else None
    return None


def _copied_leaves(items: list[Any]) -> list[Any]:
    tensors = [(index, leaf) for index, leaf in enumerate(items) if isinstance(leaf, torch.Tensor)]
    copies: dict[int, Any] = {}
    for group in sharing_memory(leaf for _, leaf in tensors):
        storage = _storage(tensors[group[0]][1])
        memory = None if storage is None else storage.clone()
        copies_by_id: dict[int, torch.Tensor] = {}
        for index, leaf in (tensors[each] for each in group):
            if id(leaf) not in copies_by_id:
                copies_by_id[id(leaf)] = _copied_leaf(leaf) if memory is None else _view_in(memory, leaf)
            copies[index] = copies_by_id[id(leaf)]
    return [copies[index] if index in copies else _copied_leaf(leaf) for index, leaf in enumerate(items)]


def _view_in(memory: torch.UntypedStorage, tensor: torch.Tensor) -> torch.Tensor:
    """Returns a view of ``memory`` with the tensor's offset, sizes and strides."""
    empty = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    return empty.set_(memory, tensor.storage_offset(), tensor.size(), tensor.stride())


def _copied_leaf(leaf: Any) -> Any:
    """Copies a leaf that can be changed in place; returns any other leaf itself."""
    if isinstance(leaf, torch.Tensor):
        return leaf.detach().clone()
    if is_array(leaf):
        return leaf.copy()
    if isinstance(leaf, torch.Generator):
        return leaf.clone_state()
    shallow = _shell(leaf) if isinstance(leaf, (set, bytearray, Iterator)) else None
    return leaf if shallow is None else shallow


def without_classes(value: Any) -> Any:
    """Converts named tuples and subclasses of dict to plain tuples and dicts."""
    if isinstance(value, Mapping):
        return {key: without_classes(each) for key, each in value.items()}
    if isinstance(value, (tuple, list)):
        return (tuple if isinstance(value, tuple) else list)(map(without_classes, value))
    return value


def tensors_in(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in leaves(value) if isinstance(leaf, torch.Tensor)]


def identifier(name: str) -> str:
    """Returns the name of an input as a Python identifier, which tracers require."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)


def unique_names(paths: Iterable[Path]) -> list[str]:
    """Returns a name for each path, unique even as an identifier."""
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
    return name if head is None else ".".join([name, *caches.name_parts(path[len(head):])])


def refuse_hidden_tensors(arguments: dict[str, Any]) -> None:
    """Raises WhenceError E0104 if tensors are hidden outside the leaves, because they would become constants."""
    walk = _Walk(every_object=False)
    walk.walk(arguments, ())
    leaf_ids = {id(leaf) for _, leaf in walk.leaves}
    hidden = [(path, _hidden_in(leaf)) for path, leaf in walk.leaves if not isinstance(leaf, torch.Tensor)]
    hidden += [(path, [each for each in _hidden_in(rest) if id(each) not in leaf_ids]) for path, rest in walk.hidden]
    for path, tensors in hidden:
        if not any(True for _ in tensors):
            continue
        name, kind = _joined(path), type(at(arguments, path))
        raise error("E0104", "input_mismatch",
                    f"'{name}' is a {kind.__module__}.{kind.__qualname__}, with tensors that whence cannot find",
                    "pass them as tensors, in tuples, lists, dicts, dataclasses or attributes of objects, or register "
                    "the class with torch.utils._pytree.register_pytree_node")


def caches_in(value: Any) -> Iterator[Any]:
    """Yields transformers' caches in a value, including both caches of an EncoderDecoderCache."""
    seen: dict[int, Any] = {}  # objects may refer to each other
    pending = [value]
    while pending:
        value = pending.pop()
        if id(value) in seen or isinstance(value, (torch.Tensor, *_LEAF_TYPES)):
            continue
        seen[id(value)] = value
        if caches.is_cache(value):
            yield value
        container = container_of(value)
        pending += [child for _, child in container.children] if container else []


def at(value: Any, path: Path) -> Any:
    """Returns the part of a value at a path."""
    for key in path:
        container = container_of(value)
        value = next(child for child_key, child in container.children if child_key == key)
    return value


def _hidden_in(value: Any) -> Iterator[torch.Tensor]:
    """Yields tensors that Python can reach from a value, except tensors of modules, which belong to the model."""
    seen: dict[int, Any] = {}
    pending = [value]
    while pending:
        value = pending.pop()
        if id(value) in seen or isinstance(value, (type, torch.nn.Module, types.ModuleType, types.CodeType, str)):
            continue
        seen[id(value)] = value
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, types.FunctionType):  # but not its globals
            pending += [value.__closure__, value.__defaults__, value.__kwdefaults__, value.__dict__]
        else:
            pending += gc.get_referents(value)
