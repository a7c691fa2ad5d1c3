"""Reads whence's keys in a node's metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping

_MODULE, _MODULES, _PRIMARY = "pkg.whence.module", "pkg.whence.modules", "pkg.whence.primary"
_STAMP = "pkg.whence.op"


def modules_in(metadata: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the qualified names of the node's modules; nothing if the keys name none."""
    if _MODULES in metadata:
        try:
            modules = json.loads(metadata[_MODULES])
            if isinstance(modules, list) and modules and all(isinstance(each, str) for each in modules):
                return tuple(modules)
        except ValueError:
            pass  # damaged; "module" is less complete but correct
    return (metadata[_MODULE],) if _MODULE in metadata else ()


def primary_in(metadata: Mapping[str, str]) -> str:
    """Returns the module of the node's main operation, which is its module unless it has several; "" without a module."""
    return metadata.get(_PRIMARY, metadata.get(_MODULE, ""))


def operations_in(metadata: Mapping[str, str]) -> tuple[tuple[int, ...], bool]:
    """Parses the stamp ``17``, ``fused:17,18`` or ``shared:17,18``. Returns the numbers of the operations, ascending, and
    true for a helper that several operations share."""
    kind, _, numbers = metadata.get(_STAMP, "").rpartition(":")
    return tuple(sorted(int(number) for number in numbers.split(",") if number.isdigit())), kind == "shared"
