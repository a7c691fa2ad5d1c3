"""Groups: nodes of one module that are quantised together."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ..numerics.annotated_file import File, Node
from ..values.module_globs import matcher
from .quantisers import Quantiser


@dataclass(frozen=True)
class Group:
    module: str               # qualified name; the group contains the nodes of all its calls
    nodes: tuple[str, ...]    # names


def named_by_quantiser(file: File, quantiser: Quantiser, chosen: Collection[str]) -> list[str]:
    """Returns all names by which the quantiser may refer to the ``chosen`` nodes."""
    return [name for node in file.nodes if node.name in chosen for name in quantiser.names(node)]


def to_exclude(file: File, quantiser: Quantiser, quantised: Collection[str]) -> tuple[str, ...]:
    """Returns the nodes that the quantiser would change, except ``quantised``. Includes nodes that are in no group."""
    return tuple(name for node in file.nodes if node.name and node.name not in quantised and quantiser.changes(node)
                 for name in quantiser.names(node))


def of_modules(file: File, quantiser: Quantiser, globs: Collection[str], excluded: Collection[str]) -> list[Group]:
    """Returns a group for each module that matches a glob, including all modules below it; without globs, a group for
    each module with nodes of its own. Leaves out excluded modules, and nodes that the quantiser does not change."""
    is_chosen, is_excluded = matcher(globs), matcher(excluded)
    groups: dict[str, list[str]] = {}
    for node in file.nodes:
        if not node.name or not node.modules or not quantiser.changes(node):
            continue
        if is_excluded(node.primary):
            continue
        group = next((path for path in _with_enclosing(node.primary) if is_chosen(path)), None) if globs else node.primary
        if group is not None:
            groups.setdefault(group, []).append(node.name)
    return [Group(module, tuple(nodes)) for module, nodes in groups.items()]


def _with_enclosing(module: str) -> list[str]:
    """Returns the module and its enclosing modules, outermost first; the root only if it is the module."""
    parts = module.split(".")
    return [".".join(parts[:depth + 1]) for depth in range(len(parts))]
