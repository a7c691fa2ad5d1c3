"""Orders and labels the rows of a table so that it shows a tree of modules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .report import ModuleAccuracy


def in_order(modules: Sequence[ModuleAccuracy]) -> list[ModuleAccuracy]:
    """Sorts modules as a tree: parents first, siblings in the order of their ends."""
    first: dict[str, int] = {}
    for at, each in enumerate(modules):
        for path in paths(each.module):
            first.setdefault(path, at)
    return sorted(modules, key=lambda each: ([first[path] for path in paths(each.module)], each.call))


def paths(module: str) -> list[str]:
    """Returns the enclosing modules and the module: encoder.layer.0 -> encoder, encoder.layer, encoder.layer.0"""
    parts = module.split(".") if module else []
    return [".".join(parts[:depth + 1]) for depth in range(len(parts))]


def labels(rows: Sequence[ModuleAccuracy]) -> list[str]:
    """Returns labels indented below the nearest enclosing module that has a row. Lists of modules have none."""
    shown = {each.module for each in rows}
    depth = {"": 0 if "" in shown else -1}
    labels = []
    for each in rows:
        enclosing = next((path for path in reversed(paths(each.module)[:-1]) if path in shown), "")
        name = each.module[len(enclosing):].lstrip(".") if each.module else "(root)"
        if each.module:
            depth[each.module] = depth[enclosing] + 1
        labels.append("  " * depth[each.module] + name + (f" call {each.call}" if each.call else ""))
    return labels
