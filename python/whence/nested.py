"""Nested values: opened to their leaves in PyTorch's order, closed again around other leaves.

Tuples, lists, dicts and what is registered with PyTorch's pytree (transformers' caches) are opened, and dataclasses
that nobody registered. Leaves are named as torch.export names its inputs: d["key"][0] is d_key_0.
"""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from .errors import error

Path = tuple[Any, ...]  # the keys from the whole to a leaf
Close = Callable[[Iterator[Any]], Any]


def opened(value: Any) -> tuple[list[tuple[Any, Any]], Callable[[list], Any]] | None:
    """The children of ``value`` by key, and what makes one like it of other children; None for a leaf."""
    if type(value) in pytree.SUPPORTED_NODES or _is_namedtuple(value):
        children, spec = pytree.tree_flatten_with_path(value, is_leaf=lambda each: each is not value)
        return ([(_key(path[0]), child) for path, child in children], lambda given: pytree.tree_unflatten(given, spec))
    if isinstance(value, Mapping):  # a subclass of dict, such as a BatchEncoding
        def mapping(given: list) -> Any:
            try:
                return type(value)(zip(value, given))
            except TypeError:
                return dict(zip(value, given))
        return list(value.items()), mapping
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]

        def like_it(given: list) -> Any:
            other = copy.copy(value)
            for name, each in zip(names, given):
                object.__setattr__(other, name, each)  # also where it is frozen
            return other
        return [(name, getattr(value, name)) for name in names], like_it
    return None


_is_namedtuple = getattr(pytree, "is_namedtuple_instance", None) or pytree._is_namedtuple_instance


def _key(entry: Any) -> Any:
    for attribute in ("key", "idx", "name"):
        if hasattr(entry, attribute):
            return getattr(entry, attribute)
    return str(entry)


def flatten(value: Any, path: Path = ()) -> tuple[list[tuple[Path, Any]], Close]:
    """The leaves with their paths, and a function that closes the same around the leaves that an iterator gives."""
    inside = opened(value)
    if inside is None:
        return [(path, value)], next
    children, build = inside
    parts = [flatten(child, (*path, key)) for key, child in children]
    return ([leaf for leaves, _ in parts for leaf in leaves],
            lambda given: build([close(given) for _, close in parts]))


def leaves(value: Any) -> list[Any]:
    return [leaf for _, leaf in flatten(value)[0]]


def copied(value: Any) -> Any:
    """The same around clones of its tensors: a model may write to what it is given."""
    found, close = flatten(value)
    return close(iter([leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf for _, leaf in found]))


def without_classes(value: Any) -> Any:
    """The same with plain tuples in the place of named ones, and plain dicts."""
    if isinstance(value, Mapping):
        return {key: without_classes(each) for key, each in value.items()}
    if isinstance(value, (tuple, list)):
        return (tuple if isinstance(value, tuple) else list)(map(without_classes, value))
    return value


def tensors_in(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in leaves(value) if isinstance(leaf, torch.Tensor)]


def named(paths: list[Path]) -> list[str]:
    """A name for each path, unlike the others."""
    names: list[str] = []
    for path in paths:
        name = base = "_".join(re.sub(r"[^a-zA-Z0-9_]", "_", str(key)) for key in path)
        number = 0
        while name in names:
            number += 1
            name = f"{base}_{number}"
        names.append(name)
    return names


def refuse_hidden_tensors(value: Any, name: str) -> None:
    """Raises WhenceError E0104 for an object that holds tensors and cannot be opened: they would become constants."""
    held = vars(value).values() if hasattr(value, "__dict__") and not isinstance(value, (type, torch.nn.Module)) else ()
    if any(isinstance(leaf, torch.Tensor) for each in held for leaf in leaves(each)):
        kind = type(value)
        raise error("E0104", "input_mismatch",
                    f"'{name}' is a {kind.__module__}.{kind.__qualname__}, which holds tensors that cannot be reached",
                    "give tuples, lists, dicts or dataclasses, or register the class with "
                    "torch.utils._pytree.register_pytree_node")
