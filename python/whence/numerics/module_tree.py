"""Orders and labels the rows of a table so that it shows a tree of modules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .report import ModuleAccuracy


def in_order(modules: Sequence[ModuleAccuracy]) -> list[ModuleAccuracy]:
    """Sorts modules as a tree: parents first, siblings in the order in which they ended."""
    first_positions: dict[str, int] = {}
    for at, row in enumerate(modules):
        for path in paths(row.module):
            first_positions.setdefault(path, at)
    return sorted(modules, key=lambda row: ([first_positions[path] for path in paths(row.module)], row.call))


def paths(module: str) -> list[str]:
    """Returns the enclosing modules and the module: encoder.layer.0 -> encoder, encoder.layer, encoder.layer.0"""
    parts = module.split(".") if module else []
    return [".".join(parts[:depth + 1]) for depth in range(len(parts))]


def labels(rows: Sequence[ModuleAccuracy]) -> list[str]:
    """Returns labels indented below the nearest enclosing module that has a row. Lists of modules have none."""
    modules = {row.module for row in rows}
    depth = {"": 0 if "" in modules else -1}
    labels = []
    for row in rows:
        enclosing = next((path for path in reversed(paths(row.module)[:-1]) if path in modules), "")
        name = row.module[len(enclosing):].lstrip(".") if row.module else "(root)"
        if row.module:
            depth[row.module] = depth[enclosing] + 1
        labels.append("  " * depth[row.module] + name + (f" call {row.call}" if row.call else ""))
    return labels
