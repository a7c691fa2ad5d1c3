"""Packages that whence does not depend on, and a part of it needs."""

from __future__ import annotations

import importlib
from types import ModuleType

from ..errors import error


def needs(name: str, what: str) -> ModuleType:
    """The module of that name. Raises WhenceError E0307 when it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise error("E0307", "needs_libtorch", f"{what} needs {name}", f"pip install {name}") from None
