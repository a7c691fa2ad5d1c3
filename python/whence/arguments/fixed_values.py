"""Compares non-tensor values, which are fixed in a file, as far as Python can inspect them."""

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


def one_line(value: Any) -> str:
    """Returns the value as text on one line."""
    if isinstance(value, torch.nn.Module):
        return f"a {type(value).__qualname__}"
    return " ".join(reprlib.repr(value).split()) if len(repr(value)) > 200 else repr(value)


def is_equal(a: Any, b: Any) -> bool:
    """Returns true if both values are equal. Objects whose class does not define ``==`` are compared by content;
    objects that cannot be inspected are equal only to themselves."""
    return _Comparison().is_equal(a, b)


class _Comparison:
    def __init__(self) -> None:
        self._in_progress: set[tuple[int, int]] = set()  # pairs under comparison: objects may refer to each other

    def is_equal(self, a: Any, b: Any) -> bool:
        if a is b or type(a) is not type(b) or isinstance(a, _COMPARED_BY_IDENTITY):
            return a is b
        if (id(a), id(b)) in self._in_progress:
            return True
        self._in_progress.add((id(a), id(b)))
        try:
            return self._has_equal_content(a, b)
        finally:
            self._in_progress.discard((id(a), id(b)))

    def _has_equal_content(self, a: Any, b: Any) -> bool:
        if isinstance(a, torch.Tensor):
            return a.dtype == b.dtype and torch.equal(a, b)
        if isinstance(a, torch.Generator):
            return True  # a file does not contain the state of generators
        if isinstance(a, Mapping):
            return list(a) == list(b) and self._has_equal_items(a.values(), b.values())
        if isinstance(a, (list, tuple)):
            return self._has_equal_items(a, b)
        structural = dataclasses.is_dataclass(a) or isinstance(a, types.SimpleNamespace)  # their == compares contents
        if type(a).__eq__ is not object.__eq__ and not structural:
            return bool(a == b)
        states = [trees.state_of(each) for each in (a, b)]
        if not states[0] and not _stores_data_in_python(type(a)):
            return False
        return states[0].keys() == states[1].keys() and all(
            self.is_equal(states[0][name], states[1][name]) for name in states[0])

    def _has_equal_items(self, first: Any, second: Any) -> bool:
        first, second = list(first), list(second)
        return len(first) == len(second) and all(map(self.is_equal, first, second))


def _stores_data_in_python(kind: type) -> bool:
    """Returns true if objects of this class store their data in Python attributes."""
    return any("__dict__" in each.__dict__ or "__slots__" in each.__dict__ for each in kind.__mro__)
