"""Compares values that are not tensors, and are therefore fixed in a file, as far as Python can inspect them."""

from __future__ import annotations

import dataclasses
import functools
import reprlib
import types
from collections.abc import Mapping
from typing import Any

import torch

from . import trees

# Types whose values are compared by identity.
_COMPARED_BY_IDENTITY = (type, torch.dtype, torch.layout, torch.memory_format, types.ModuleType, types.FunctionType,
                         functools.partial)


def shown(value: Any) -> str:
    """Returns the value as text on one line."""
    if isinstance(value, torch.nn.Module):
        return f"a {type(value).__qualname__}"
    return " ".join(reprlib.repr(value).split()) if len(repr(value)) > 200 else repr(value)


def same(a: Any, b: Any) -> bool:
    """Returns true if both values are equal. Objects without an ``==`` of their own are equal if their contents are;
    objects that cannot be inspected are equal only to themselves."""
    return _Comparison().same(a, b)


class _Comparison:
    def __init__(self) -> None:
        self._open: set[tuple[int, int]] = set()  # pairs under comparison: objects may refer to each other

    def same(self, a: Any, b: Any) -> bool:
        if a is b or type(a) is not type(b) or isinstance(a, _COMPARED_BY_IDENTITY):
            return a is b
        if (id(a), id(b)) in self._open:
            return True
        self._open.add((id(a), id(b)))
        try:
            return self._same_content(a, b)
        finally:
            self._open.discard((id(a), id(b)))

    def _same_content(self, a: Any, b: Any) -> bool:
        if isinstance(a, torch.Tensor):
            return a.dtype == b.dtype and torch.equal(a, b)
        if isinstance(a, torch.Generator):
            return True  # a file does not contain the state of generators
        if isinstance(a, Mapping):
            return list(a) == list(b) and self._same_items(a.values(), b.values())
        if isinstance(a, (list, tuple)):
            return self._same_items(a, b)
        structural = dataclasses.is_dataclass(a) or isinstance(a, types.SimpleNamespace)  # their == compares contents
        if type(a).__eq__ is not object.__eq__ and not structural:
            return bool(a == b)
        states = [trees.state_of(each) for each in (a, b)]
        if not states[0] and not _is_of_python(type(a)):
            return False
        return states[0].keys() == states[1].keys() and all(
            self.same(states[0][name], states[1][name]) for name in states[0])

    def _same_items(self, first: Any, second: Any) -> bool:
        first, second = list(first), list(second)
        return len(first) == len(second) and all(map(self.same, first, second))


def _is_of_python(kind: type) -> bool:
    """Returns true if objects of this class store their data in Python attributes."""
    return any("__dict__" in each.__dict__ or "__slots__" in each.__dict__ for each in kind.__mro__)
