"""Imports packages that only parts of whence need, and that are not its dependencies."""

from __future__ import annotations

import importlib
from types import ModuleType

from ..errors import error


def import_optional(name: str, what: str, package: str = "") -> ModuleType:
    """Imports and returns a module. Raises WhenceError E0307 if it is not installed. ``package`` is its name on PyPI, by
    default that of the outermost module."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise error("E0307", "needs_libtorch", f"{what} needs {name}", f"pip install {package or name.partition('.')[0]}") from None
